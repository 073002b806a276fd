"""The estimators on a few rows, against a graph of loops and SciPy's exponential of its matrix.

A few cases in every run, as many as `JSEM_CASES` on demand, see `settings.py`.
"""

import numpy as np
import scipy.linalg
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from trust.draws import SEEDS, edge_lists
from trust.settings import draws

from jsem_pyg.estimators import HeatDiffusion
from jsem_pyg.estimators.cluster_tree import TIME, ClusterLevel, ClusterTree
from jsem_pyg.graph import GraphStructure

METRICS = st.sampled_from(["l2", "cosine"])


@st.composite
def rows(draw, kinds=("apart", "repeated", "collinear", "zeros", "integers")):
    """X [N, D] of 3 to 24 rows, and how it is handed over."""
    r = np.random.default_rng(draw(SEEDS))
    n, d = draw(st.integers(3, 24)), draw(st.integers(1, 5))
    x = r.normal(size=(n, d)) + draw(st.sampled_from([0.0, 4.0]))
    kind = draw(st.sampled_from(kinds))
    if kind == "repeated":
        x = x[r.integers(n, size=n)]
    elif kind == "collinear":
        x = x[r.integers(3, size=n)] * r.uniform(0.1, 9, (n, 1))
    elif kind == "zeros" and n > 4:
        x[: n - 4][r.random(n - 4) < 0.3] = 0
    elif kind == "integers":
        return np.ceil(3 * x).astype(np.int64)
    return x.astype(draw(st.sampled_from([np.float32, np.float64])))


def distances(a, b, metric):
    if metric == "l2":
        return np.linalg.norm(a[:, None] - b[None], axis=-1)
    a, b = (each / np.linalg.norm(each, axis=1, keepdims=True) for each in (a, b))
    return ((a[:, None] - b[None]) ** 2).sum(-1) / 2


def naive_graph(x, k, metric, kernel):
    """Weights [N, N], and how distances become weights."""
    apart = distances(x, x, metric)
    np.fill_diagonal(apart, np.inf)
    near = np.argsort(apart, 1)[:, :k]
    width = np.sort(np.take_along_axis(apart, near[:, -1:], 1), None)[(len(x) - 1) // 2]

    def weigh(distance):
        if kernel is None:
            return np.ones_like(distance)
        if kernel == "cosine":
            return np.maximum(1 - distance / 2, 1e-6)
        return np.maximum(np.exp(-((distance / width) ** 2) / 2), 1e-6)

    joined = np.zeros_like(apart, dtype=bool)
    np.put_along_axis(joined, near, True, 1)
    joined |= joined.T
    part = np.arange(len(x))  # components are joined by their shortest links
    for i, j in sorted(np.argwhere(np.triu(joined)).tolist()):
        part[part == part[i]] = part[j]
    pairs = np.argwhere(np.triu(np.ones_like(joined), 1)).tolist()
    for i, j in sorted(pairs, key=lambda pair: apart[tuple(pair)]):
        if part[i] != part[j]:
            joined[i, j] = joined[j, i] = True
            part[part == part[i]] = part[j]
    return np.where(joined, weigh(apart), 0.0), weigh


def naive_heat(x, new, w, links, t):
    """What nodes become, and new points by their links [M, N]: one-way edges of a larger matrix."""
    n, m = len(x), len(new)
    s, received = w / w.sum(1)[:, None], links / links.sum(1)[:, None]
    whole = np.zeros((n + m, n + m))
    whole[:n, :n], whole[n:, :n] = s, received
    return scipy.linalg.expm(-t * (np.eye(n + m) - whole)) @ np.concatenate([x, new])


@draws(12)
@given(st.data())
def test_heat_is_the_exponential_of_a_naive_graph(data):
    x = data.draw(rows(kinds=["apart"]))
    exact, metric = x.astype(np.float64), data.draw(METRICS)
    if metric == "cosine" and x.shape[1] < 2:
        return  # two directions in all
    kernel = data.draw(st.sampled_from(["gaussian", None, *["cosine"][metric == "l2" :]]))
    t = data.draw(st.sampled_from([0.0, 0.7, 6.0, 50.0]))
    wanted = data.draw(st.integers(1, 9))
    k = min(wanted, (len(x) - 1) // 2)
    options = {"metric": metric, "kernel": kernel, "t": t}
    heat = HeatDiffusion(wanted, scale=None, **options).fit(x)
    assert (heat.n_neighbors_, heat.t_) == (k, t)
    new = (exact[:2] + exact[1:3]) / 2 + 0.1
    w, weigh = naive_graph(exact, k, metric, kernel)
    apart = distances(new, exact, metric)
    near = np.argsort(apart, 1)[:, :k]
    links = np.zeros_like(apart)
    np.put_along_axis(links, near, weigh(np.take_along_axis(apart, near, 1)), 1)
    expected = naive_heat(exact, new, w, links, t)
    scale = np.abs(exact).max()
    tol = 2e-4 if x.dtype == np.float32 else 1e-5
    np.testing.assert_allclose(heat.embedding_, expected[: len(x)], atol=tol * scale)
    found = heat.transform(new.astype(x.dtype))
    np.testing.assert_allclose(found, expected[len(x) :], atol=tol * scale)


def merges(labels, heat, mass, until):
    """Average linkage by loops: the groups, how near the best two pairs were, affinities."""
    groups = [np.flatnonzero(labels == c).tolist() for c in range(labels.max() + 1)]
    nearest, taken = np.inf, []

    def affinity(pair):
        one, other = (groups[each] for each in pair)
        expected = mass[one].sum() * mass[other].sum()
        return heat[np.ix_(one, other)].sum() / expected if expected > 0 else 0.0

    while len(groups) > until:
        pairs = [(i, j) for j in range(len(groups)) for i in range(j)]
        ranked = sorted(map(affinity, pairs), reverse=True)
        if len(ranked) > 1:
            nearest = min(nearest, ranked[0] - ranked[1])
        one, other = max(pairs, key=affinity)
        taken.append(affinity((one, other)))
        groups[one] += groups.pop(other)
    return groups, nearest, np.array(taken)


@draws(10)
@given(st.data())
def test_clusters_are_cut_by_average_linkage(data):
    edge_index, m, order, n, g = data.draw(edge_lists(most_nodes=10, repeats=False))
    assume(n > 1)
    weight = torch.rand(m, generator=g) + 0.1
    weight = torch.cat([weight, weight])[order]
    count = data.draw(st.integers(1, n))
    labels = np.arange(n) % count
    level = ClusterLevel(count, 1.0, labels)
    tree = ClusterTree([level], GraphStructure(edge_index, n), weight)
    w = np.zeros((n, n))
    w[tuple(edge_index)] = weight
    degree = w.sum(1)
    share = degree / max(degree.sum(), 1e-300)
    root = np.sqrt(np.where(degree > 0, degree, 1))
    laplacian = np.diag(degree > 0) - w / root[:, None] / root
    heat = np.sqrt(share)[:, None] * scipy.linalg.expm(-TIME * laplacian) * np.sqrt(share)
    for until in range(1, count + 1):
        cut = tree.cut(until)
        assert np.array_equal(np.unique(cut), np.arange(until))
        groups, nearest, affinities = merges(labels, heat, share, until)
        if nearest > 1e-2:  # the heat is known to 1e-4, and a tie has no order
            assert {frozenset(np.flatnonzero(cut == c)) for c in range(until)} == set(
                map(frozenset, groups)
            )
            heights = tree.linkage[: len(affinities), 2]
            np.testing.assert_allclose(heights, 1 / (1 + affinities), rtol=1e-3)
