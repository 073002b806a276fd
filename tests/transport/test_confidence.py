"""How likely partners are to be right."""

import networkx
import numpy as np
import pytest
import torch
from scipy.sparse import csr_array, hstack
from transport.problems import points, random_graph

from jsem_pyg.transport import Factor, gromov_wasserstein, match_graphs, sampled_gromov_wasserstein
from jsem_pyg.transport.match import confidence as edges
from jsem_pyg.transport.match.assignment import sparse_rows


def matrix(edge_index, size):
    ones = np.ones(edge_index.size(1))
    return csr_array((ones, edge_index.numpy()), (size, size))


def thinned(edge_index, share, seed=5):
    upper = edge_index[:, edge_index[0] < edge_index[1]]
    generator = torch.Generator().manual_seed(seed)
    kept = torch.rand(upper.size(1), generator=generator) > share
    return torch.cat([upper[:, kept], upper[:, kept].flip(0)], 1)


def plain_evidence(source, target, partner):
    """Columns that do not depend on random halves, by loops."""
    a, b = (each.toarray() > 0 for each in (source, target))
    n = len(a)
    found = np.zeros((n, 2))
    for i in range(n):
        j = partner[i]
        around = [k for k in range(n) if a[i, k]]
        both = sum(partner[k] >= 0 and j >= 0 and b[j, partner[k]] for k in around)
        degrees = len(around), int(b[j].sum()) if j >= 0 else 0
        scores = np.zeros(len(b))
        for k in around:
            if partner[k] >= 0:
                scores += b[partner[k]]
        top = scores.max(initial=0)
        is_best = j >= 0 and top > 0 and scores[j] == top
        found[i] = both / max(1, min(degrees)), is_best / max(1, int((scores == top).sum()))
    return found


@pytest.mark.parametrize("block", [1 << 24, 8])
def test_evidence_of_edges_is_that_of_plain_loops(monkeypatch, block):
    monkeypatch.setattr(edges, "BLOCK", block)
    source, target = matrix(random_graph(12, 3), 14), matrix(random_graph(9, 3, seed=1), 11)
    partner = np.array([3, -1, 0, 5, 2, 10, -1, 4, 1, 7, 6, 9, 8, -1])  # 12 and 13 are isolated
    found = edges.evidence(source, target, partner)
    expected = plain_evidence(source, target, partner)
    np.testing.assert_allclose(found[:, 1], expected[:, 0], rtol=1e-6)
    chosen = sparse_rows(partner[:, None], np.ones((14, 1)), 11)
    follows = edges._share_of_best(source, (chosen @ target).tocsr(), partner)
    np.testing.assert_allclose(follows, expected[:, 1], rtol=1e-6)
    a, b = (each.toarray() for each in (source, target))
    degrees = (a > 0).sum(1), np.where(partner < 0, 0, (b > 0).sum(1)[partner])
    np.testing.assert_allclose(found[:, 6], np.log1p(np.minimum(*degrees)))
    around = a / np.maximum(a.sum(1, keepdims=True), 1)
    predicted = edges._predicted(source, chosen, target, partner)
    np.testing.assert_allclose(found[:, 2:4].T, [around @ predicted, around @ found[:, 2]])
    nodes = np.flatnonzero(partner >= 0)
    kept = (a[nodes][:, nodes] * b[partner[nodes]][:, partner[nodes]]).sum()
    np.testing.assert_allclose(found[:, 4], kept / min(a.sum(), b.sum()))
    np.testing.assert_allclose(found[:, 5], predicted.mean())
    assert 0 < found[0, 5] < predicted.max() <= 1 + 1e-6
    confidence = edges.edge_confidence(source, target, partner)
    assert (confidence[partner < 0] == 0).all()
    # Edges of two types side by side: those of one type alone say as much as a graph of these.
    beside = (hstack([each, csr_array(each.shape)], "csr") for each in (source, target))
    np.testing.assert_allclose(edges.evidence(*beside, partner), found)


def test_a_graph_is_likely_to_match_its_copy_but_not_another_graph():
    first, other = random_graph(120), random_graph(120, seed=1)
    order = torch.randperm(120, generator=torch.Generator().manual_seed(2))
    same = match_graphs(first, order[thinned(first, 0.1)])
    assert (same.argmax() == order).double().mean() > 0.95
    assert float(same.confidence.mean()) > 0.9
    unrelated = match_graphs(first, other)
    assert float(unrelated.confidence.mean()) < 0.1


@pytest.mark.parametrize(
    ("name", "node", "alike"), [("leaves", 60, 8), ("twice", 1, 2), ("regular", 0, 1)]
)
def test_nodes_that_nobody_can_tell_apart_share_the_probability(name, node, alike):
    leaves = torch.stack([torch.zeros(8).long(), torch.arange(60, 68)])
    first = random_graph(60, seed=3)
    regular = torch.tensor(list(networkx.random_regular_graph(3, 60, seed=0).edges)).T
    edge_index = {
        "leaves": torch.cat([first, leaves, leaves.flip(0)], 1),
        "twice": torch.cat([first, first + 60], 1),
        "regular": torch.cat([regular, regular.flip(0)], 1),
    }[name]
    other = edge_index if name == "leaves" else thinned(edge_index, 0.03)
    confidence = match_graphs(edge_index, other.flip(0)).confidence
    assert 0.5 / alike < float(confidence[node]) <= float(confidence[node:].max()) <= 1 / alike
    assert float(confidence[:60].median()) > (0.4 if name == "twice" else 0.9)


def test_points_are_likely_to_match_their_copy_but_not_other_points():
    x = points(60, 6, 0) * torch.linspace(2, 1, 6)
    turn = torch.linalg.qr(points(6, 6, 1))[0]
    same = gromov_wasserstein(x, x @ turn, progress=False)
    other = gromov_wasserstein(x, points(60, 6, 7) * torch.linspace(2, 1, 6), progress=False)
    assert float(same.confidence.mean()) > 0.9
    assert same.argmax()[0] == 0  # a partner as any other
    assert float(same.confidence[0]) > 0.5
    assert float(other.confidence.mean()) < 0.3
    assert same.confidence.dtype == same.scores.like.dtype
    back = other.transposed().confidence
    assert float(back.mean()) == pytest.approx(float(other.confidence.mean()), abs=0.05)


@pytest.mark.parametrize(("noise", "axes"), [(0.5, 4), (0.5, 2), (3.0, 4)])
def test_confidence_falls_with_noise_as_the_share_of_near_partners_does(noise, axes):
    g = torch.Generator().manual_seed(0)
    x, more = torch.randn(2, 120, axes, generator=g, dtype=torch.float64)
    x = x * torch.linspace(2, 1, axes)
    y = x + noise * more
    plan = gromov_wasserstein(x, y, progress=False)
    apart = torch.cdist(y[plan.argmax()], y)
    is_near = (apart < apart.diagonal()[:, None]).double().mean(1) < 0.1
    assert abs(float(plan.confidence.mean()) - float(is_near.double().mean())) < 0.15


def test_a_few_wrong_pairs_between_unrelated_graphs_do_not_make_them_sure():
    """Beliefs agree with the pairs that they come from."""
    pairs = torch.arange(5).expand(2, -1)
    plan = match_graphs(random_graph(120), random_graph(120, seed=1), known_pairs=pairs)
    assert float(plan.confidence[5:].mean()) < 0.2


def test_confidence_does_not_depend_on_the_unit():
    x, y = (points(40, 3, seed) * torch.tensor([3.0, 2.0, 1.0]) for seed in (0, 1))
    plain, scaled = (
        gromov_wasserstein(x * each, y * each, progress=False).confidence for each in (1.0, 2.0**10)
    )
    torch.testing.assert_close(scaled, plain, rtol=1e-3, atol=1e-4)


def test_kernels_with_negative_directions_are_likely_to_match_their_copy():
    x, sign = points(30, 3, 0) * torch.tensor([2.0, 1.5, 1.0]), torch.tensor([1.0, 1.0, -1.0])
    sides = (Factor(each, kind="kernel", sign=sign) for each in (x, x.flip(0)))
    plan = gromov_wasserstein(*sides, starts=["costs"], progress=False)
    assert float(plan.confidence.mean()) > 0.9


def test_points_without_mass_have_no_confidence():
    p = torch.ones(20)
    p[:3] = 0
    sides = points(20, 3, 0), points(15, 3, 1)
    plan = gromov_wasserstein(*sides, p=p, starts=["costs"], progress=False)
    assert (plan.confidence[:3] == 0).all()
    assert ((plan.confidence >= 0) & (plan.confidence <= 1)).all()


def test_plans_of_other_solvers_have_no_confidence():
    plan = sampled_gromov_wasserstein(*(1 - torch.eye(4) for _ in range(2)))
    with pytest.raises(ValueError, match="match_graphs or gromov_wasserstein"):
        plan.confidence  # noqa: B018


def test_confidence_is_that_of_the_coordinates_as_they_were():
    x = points(40, 3).double()
    y = x.flip(0) + 0.05 * points(40, 3, seed=1).double()
    asked, later = (
        gromov_wasserstein(Factor(x), Factor(y), progress=False, seed=0) for _ in range(2)
    )
    expected = asked.confidence
    x.mul_(torch.linspace(0.1, 3, 40, dtype=torch.float64)[:, None])
    y.zero_()
    torch.testing.assert_close(later.confidence, expected, rtol=0, atol=0)
