"""Matching by known pairs, features and types of edges."""

import networkx
import numpy as np
import pytest
import torch
from scipy.sparse import csr_array
from torch_geometric.data import Data
from torch_geometric.utils import from_networkx
from transport.problems import random_graph
from transport.test_matching import changed, neighbour_graph, renamed

from jsem_pyg.transport import gromov_wasserstein, match_graphs
from jsem_pyg.transport.match.beliefs import find_beliefs, from_scores, make_layer
from jsem_pyg.transport.match.likelihood import FeatureLikelihood


def pair(size=120, degree=8, lost=0.2, seed=0):
    """A graph, the same without some edges under other names, and the names."""
    edges = random_graph(size, degree, seed)
    draw = np.random.default_rng(seed + 1)
    name = torch.from_numpy(draw.permutation(size))
    one_way = edges[:, edges[0] < edges[1]]
    kept = one_way[:, torch.from_numpy(draw.random(one_way.size(1)) >= lost)]
    return edges, name[torch.cat([kept, kept.flip(0)], 1)], name


def sides(first, second, size):
    return (Data(edge_index=each, num_nodes=size) for each in (first, second))


def matrix(edges, size):
    ones = np.ones(edges.size(1), np.float32)
    return csr_array((ones, tuple(edges.numpy())), (size, size))


def dense_beliefs(first, second, known, steps=16):
    """What `beliefs` computes, by tables."""
    layer = make_layer(csr_array(first), csr_array(second), known)
    fixed = np.zeros((len(first), len(second)))
    fixed[tuple(known)] = 1
    taken = fixed.sum(1)[:, None] + fixed.sum(0) > 0

    def ratio(edges, shares, certain, kept, back):
        degree = np.maximum(edges.sum(1), 1)
        chance = edges.sum() / np.sqrt(degree).sum() ** 2 * np.sqrt(np.outer(degree, degree))
        near = np.minimum(edges @ shares, 1)
        rare = (edges / chance) @ shares
        found = kept * rare + (1 - kept) * np.maximum(certain - near, 0) + 1 - certain
        return np.log(found) - np.log(1 - back * near)

    def score(shares):
        rows, columns = (np.minimum(shares.sum(side), 1) for side in (1, 0))
        part = layer.kept[0] / sum(layer.kept)
        return part * ratio(first, shares, columns, *layer.kept) @ second + (1 - part) * (
            first @ ratio(second, shares.T, rows, *layer.kept[::-1]).T
        )

    shares = fixed
    for _ in range(steps):
        # Only pairs that have matched neighbours are scored.
        reached = (first @ shares > 0) @ second + first @ (second @ shares.T > 0).T
        found = np.where(taken | (reached == 0), -np.inf, score(shares))
        column = np.tile(np.arange(len(second), dtype=np.int32), (len(first), 1))
        column[found == -np.inf] = -1
        new = from_scores(column, found, len(second)).toarray()
        shares = 0.2 * shares + 0.8 * (new + fixed)
        shares[shares < 1e-4] = 0
    return shares


def test_beliefs_are_those_of_tables():
    first, second, name = pair(40, 6)
    known = np.stack([np.arange(12), name[:12].numpy()])
    tables = [matrix(each, 40).toarray().astype(float) for each in (first, second)]
    layer = make_layer(*(csr_array(each) for each in tables), known)
    found = find_beliefs([layer], known, csr_array((40, 40), dtype=np.float32))
    expected = dense_beliefs(*tables, known)
    np.testing.assert_allclose(found.shares.toarray(), expected, atol=2e-3)


@pytest.mark.parametrize("turned", [False, True])
def test_known_pairs_stay_and_lead_to_the_others(turned):
    first, second, name = pair()
    known = torch.stack([torch.arange(0, 120, 10), name[::10]])
    if turned:
        first, second, known, name = second, first, known.flip(0), name.argsort()
    plan = match_graphs(*sides(first, second, 120), known_pairs=known)
    partner = plan.argmax()
    assert torch.equal(partner[known[0]], known[1])
    assert (partner == name).float().mean() > 0.9
    rows, columns = plan.marginals()
    assert rows.max() < 1 / 120 + 1e-6
    assert columns.max() < 1 / 120 + 1e-6
    assert plan.confidence.mean() > 0.7


def test_of_very_few_known_pairs_the_edges_are_searched_first():
    """Heat of two nodes finds a fifth of the others."""
    first = neighbour_graph(150)
    second, name = renamed(changed(first, 150, 0.2), 150)
    known = torch.stack([torch.tensor([0, 60]), name[[0, 60]]])
    plan = match_graphs(*sides(first, second, 150), known_pairs=known)
    assert (plan.argmax() == name).float().mean() > 0.8


def test_wrong_pairs_have_little_confidence():
    first, second, name = pair(200, 10)
    known = torch.stack([torch.arange(40), name[:40]])
    known[1, :4] = known[1, :4].roll(1)
    plan = match_graphs(*sides(first, second, 200), known_pairs=known)
    assert torch.equal(plan.argmax()[known[0]], known[1])
    assert plan.confidence[:4].max() < 0.3 < plan.confidence[4:40].mean()
    assert (plan.argmax() == name)[40:].float().mean() > 0.9


@pytest.mark.parametrize("share", [0.25, 0.5, 1.0])
def test_wrong_pairs_do_not_lead_the_others_astray(share):
    """The answer by edges is a rival; right pairs of a ring know more than its edges."""
    ring = from_networkx(networkx.watts_strogatz_graph(300, 6, 0.05, seed=1)).edge_index
    for first, least in ((random_graph(300, 16), 0.98), (ring, 0.9 if share < 0.5 else 0.0)):
        second, name = renamed(changed(first, 300, 0.1), 300)
        known, rest = (
            torch.stack([torch.arange(0, 300, 15), name[::15]]),
            torch.arange(300) % 15 > 0,
        )
        known[1, : int(20 * share)] = name[1::15][: int(20 * share)]
        plans = (match_graphs(first, second, known_pairs=each) for each in (known, None))
        right, alone = (float((plan.argmax() == name)[rest].float().mean()) for plan in plans)
        assert right > max(least, alone - 0.02)


def test_features_count_as_far_as_edges_agree_with_them():
    """Of graphs that share half of their edges, features with noise find most partners."""
    first, second, name = pair(150, 8, lost=0.5)
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(150, 6, generator=draw)
    near, noise = torch.empty(2, 150, 6)
    near[name] = x + 0.5 * torch.randn(150, 6, generator=draw)
    noise[:] = torch.randn(150, 6, generator=draw)
    bits = []
    for y, least in ((near, 0.9), (noise, 0.0)):
        plan = match_graphs(*sides(first, second, 150), features=(x, y))
        assert (plan.argmax() == name).float().mean() >= least
        bits.append(float(plan.history[-1].stage.split()[-2]))
    assert bits[0] > 2 > bits[1]
    known = torch.stack([torch.arange(15), name[:15]])
    both = match_graphs(*sides(first, second, 150), features=(x, noise), known_pairs=known)
    alone = match_graphs(*sides(first, second, 150), known_pairs=known)
    right = [(each.argmax() == name).float().mean() for each in (both, alone)]
    assert right[0] > right[1] - 0.1


def test_sparse_and_dense_features_are_compared_alike():
    draw = np.random.default_rng(0)
    x, y = (draw.random((30, 8)) * (draw.random((30, 8)) < 0.4) for _ in range(2))
    dense = FeatureLikelihood(x.astype(np.float32), y.astype(np.float32), 0)
    sparse = FeatureLikelihood(*(csr_array(each.astype(np.float32)) for each in (x, y)), 0)
    np.testing.assert_allclose(sparse.steps, dense.steps, rtol=1e-5)
    np.testing.assert_allclose(sparse.ratio, dense.ratio, atol=0.05)
    assert (np.sort(sparse.nearest) == np.sort(dense.nearest)).all()


def test_edges_of_one_type_are_compared_with_their_own():
    """Four types make up for the three fifths of the edges that are lost."""
    first, second, name = pair(150, 8, lost=0.6)
    ends = first, name.argsort()[second]
    kinds = tuple((each.amin(0) * 7 + each.amax(0) * 13 + each.prod(0)) % 4 for each in ends)
    known = torch.stack([torch.arange(8), name[:8]])
    plans = (
        match_graphs(*sides(first, second, 150), known_pairs=known, edge_type=types)
        for types in (kinds, None)
    )
    typed, plain = ((plan.argmax() == name).float().mean() for plan in plans)
    assert typed > 0.8 > 0.6 > plain


@pytest.mark.parametrize("lost", [0.0, 0.05])
def test_types_decide_between_alike_halves_and_cost_nothing_if_random(lost):
    half, draw = random_graph(60, 6, 0), torch.Generator().manual_seed(1)
    half = half[:, half[0] < half[1]]
    edges, name = torch.cat([half, half + 60], 1), torch.randperm(120, generator=draw)
    kept = torch.rand(edges.size(1), generator=draw) >= lost
    both = [torch.cat([each, each.flip(0)], 1) for each in (edges, name[edges[:, kept]])]
    own, noise = (edges[0] >= 60).long(), torch.randint(4, edges.shape, generator=draw)
    for kinds, names in (((own, own), [name]), (noise, [name, name.roll(60)])):
        types = kinds[0].repeat(2), kinds[1][kept].repeat(2)
        partner = match_graphs(*sides(*both, 120), edge_type=types).argmax()
        assert max((partner == each).float().mean() for each in names) > 0.95


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (5, 3)])
def test_graphs_without_edges(size):
    empty = [Data(edge_index=torch.empty(2, 0, dtype=torch.long), num_nodes=n) for n in size]
    plan = match_graphs(*empty, known_pairs=torch.tensor([[0], [0]]))
    assert plan.argmax()[0] == 0
    x = [torch.arange(float(n))[:, None] for n in size]
    plan = match_graphs(*empty, features=tuple(x))
    assert plan.argmax()[: min(size)].tolist() == list(range(min(size)))


def test_what_is_refused():
    first, second, _ = pair(20, 4)
    graphs = tuple(sides(first, second, 20))
    with pytest.raises(ValueError, match=r"'known_pairs' to have each node at most once"):
        match_graphs(*graphs, known_pairs=torch.tensor([[0, 0], [1, 2]]))
    for pairs in ([[0, 1], [2, 3]], torch.tensor([[0, 1], [2, 3], [4, 5]])):
        with pytest.raises((TypeError, ValueError), match=r"torch\.tensor\(pairs\)\.T"):
            match_graphs(*graphs, known_pairs=pairs)
    for each, cure in ((networkx.path_graph(3), "from_networkx"), (first.numpy(), "as_tensor")):
        for align in (match_graphs, gromov_wasserstein):
            with pytest.raises(TypeError, match=rf"'source'.*\..*{cure}"):
                align(each, graphs[1])
    with pytest.raises(ValueError, match="'features' to have a row for each"):
        match_graphs(*graphs, features=(torch.rand(20, 2), torch.rand(19, 2)))
    with pytest.raises(ValueError, match="'features'"):
        match_graphs(*graphs, features=(torch.full((20, 2), 1e30), torch.rand(20, 2)))
    with pytest.raises(ValueError, match="the same columns"):
        match_graphs(*graphs, features=(torch.rand(20, 2), torch.rand(20, 3)))
    with pytest.raises(ValueError, match="'edge_type' of the source"):
        match_graphs(*graphs, edge_type=(torch.zeros(3, dtype=torch.long),) * 2)
