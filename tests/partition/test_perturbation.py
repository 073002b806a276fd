import pytest
import torch
from partition.pruning_cases import faint_graph
from tiny_graphs import undirected
from torch_geometric.data import Data

from jsem_pyg.diffusion import dense_laplacian
from jsem_pyg.graph import GraphStructure
from jsem_pyg.operators.laplacian import laplacian_entries
from jsem_pyg.partition import Perturbation, perturbation_bound, prune_edges


def norm(matrix, normalization):
    """The operator norm that belongs to a normalisation."""
    if normalization == "rw":
        return float(matrix.abs().sum(1).max())
    return float(torch.linalg.matrix_norm(matrix, 2))


def dense(data, h, normalization, kept=None):
    kept = torch.ones(data.num_edges, dtype=torch.bool) if kept is None else kept
    weight = (data.edge_weight * h)[kept]
    return dense_laplacian(data.edge_index[:, kept], weight, data.num_nodes, normalization)


@pytest.mark.parametrize("normalization", ["sym", "rw", None])
@pytest.mark.parametrize("share", [0.02, 0.2, 1.0])
def test_the_bound_is_true_and_tight(normalization, share):
    for seed in range(8):
        data, h = faint_graph(seed)
        pruned = prune_edges(data, h, 0.2, max_share=share, normalization=normalization)
        assert pruned.num_dropped > 0
        before = dense(data, h, normalization)
        after = dense(data, h, normalization, pruned.kept)
        change = norm(before - after, normalization)
        bound = pruned.perturbation
        assert change <= bound.rate * (1 + 1e-12)
        assert bound.rate <= 1.6 * change  # not much more than it has to be
        for t in (0.1, 1.0, 10.0):
            moved = norm(
                torch.matrix_exp(-t * before) - torch.matrix_exp(-t * after), normalization
            )
            assert moved <= bound.at(t) * (1 + 1e-12)
            if t == 0.1:
                assert bound.at(t) <= 1.7 * moved


@pytest.mark.parametrize("normalization", ["sym", "rw", None])
def test_any_mask_will_do(normalization):
    """Not only what hardly conducts: half of the edges at random, and all of them."""
    for seed in range(8):
        data, h = faint_graph(seed)
        chosen = torch.rand(40, 40, generator=torch.Generator().manual_seed(seed)) < 0.5
        kept = (chosen | chosen.t())[data.edge_index[0], data.edge_index[1]]
        for mask in (kept, torch.zeros_like(kept)):
            bound = perturbation_bound(data, mask, h, normalization=normalization)
            before = dense(data, h, normalization)
            after = dense(data, h, normalization, mask)
            assert norm(before - after, normalization) <= bound.rate * (1 + 1e-12)
            moved = torch.matrix_exp(-3 * before) - torch.matrix_exp(-3 * after)
            assert norm(moved, normalization) <= bound.at(3.0) * (1 + 1e-12)


def with_loops(data, h, kept, self_loop):
    """S as a layer with self-loops makes it, dense."""
    part = data.edge_subgraph(kept)
    structure = GraphStructure(part.edge_index, data.num_nodes)
    entries = laplacian_entries(structure, part.edge_weight, "sym", h[kept], self_loop)
    s = entries.diagonal.diag()
    s[structure.row.long(), structure.col.long()] = entries.off_diagonal
    return s


@pytest.mark.parametrize("self_loop", [0.05, 1.0])
def test_self_loops_count(self_loop):
    for seed in range(8):
        data, h = faint_graph(seed)
        given = {"max_share": 0.5, "self_loop": self_loop}
        pruned = prune_edges(data, h, 0.3, **given)
        everything = torch.ones_like(pruned.kept)
        s = [with_loops(data, h, kept, self_loop) for kept in (everything, pruned.kept)]
        change = norm(s[0] - s[1], "sym")
        assert change <= pruned.perturbation.rate * (1 + 1e-12) <= 1.6 * change
        loose = prune_edges(data, h, 0.3, max_share=0.5).perturbation.rate
        assert pruned.perturbation.rate < loose
        # Of the random walk with loops: P = (D + l)^(-1) (W + l), by the same scaling.
        of_walk = prune_edges(data, h, 0.3, normalization="rw", **given).perturbation
        degree = [
            torch.zeros(40).double().index_add(0, data.edge_index[0], data.edge_weight * each)
            + self_loop
            for each in (h, h * pruned.kept)
        ]
        p = [each * (d[None, :] / d[:, None]).sqrt() for each, d in zip(s, degree, strict=True)]
        assert of_walk.rate == pytest.approx(norm(p[0] - p[1], "rw"))


def test_by_hand():
    """Of two edges of weight one at a node, one goes."""
    edge_index, num_nodes = undirected([(0, 1), (1, 2), (2, 0)], 3)
    data = Data(edge_index=edge_index, num_nodes=num_nodes)
    kept = torch.tensor([True, True, False] * 2)
    assert perturbation_bound(data, kept, normalization="rw").rate == 1.0
    assert perturbation_bound(data, kept, normalization=None).rate == 2.0
    # S' - S = (0, a, -1/2; a, 0, a; -1/2, a, 0) with a = 1/sqrt(2) - 1/2.
    a = 0.5**0.5 - 0.5
    expected = torch.linalg.matrix_norm(
        torch.tensor([[0, a, 0.5], [a, 0, a], [0.5, a, 0]], dtype=torch.float64), 2
    )
    assert perturbation_bound(data, kept).rate == pytest.approx(float(expected), rel=1e-6)


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e300])
def test_the_scale_of_the_weights_does_not_matter(scale):
    data, h = faint_graph(0)
    expected = prune_edges(data, h, 0.2).perturbation.rate
    data.edge_weight = data.edge_weight * scale
    assert prune_edges(data, h, 0.2).perturbation.rate == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("share", [0.01, 0.1, 0.5, 0.75])
def test_a_share_promises_a_bound_beforehand(share):
    """Also where all nodes lose alike, and where a hub loses much and its neighbours nothing."""
    rim = [(i, i + 1) for i in range(1, 200)]
    wheel = undirected([*((0, i + 1) for i in range(200)), *rim], 201)
    h = torch.cat([torch.rand(200, generator=torch.Generator().manual_seed(0)), torch.ones(199)])
    cases = [(Data(edge_index=wheel[0], num_nodes=201), h.repeat(2))]
    cases += [faint_graph(seed) for seed in range(5)]
    for data, h in cases:
        for normalization in ("sym", "rw"):
            pruned = prune_edges(data, h, 0.5, max_share=share, normalization=normalization)
            assert pruned.num_dropped > 0
            assert pruned.perturbation.rate <= 2 * share + 1e-12


def test_nothing_dropped_nothing_moved():
    data, h = faint_graph(0)
    everything = torch.ones(data.num_edges, dtype=torch.bool)
    for normalization in ("sym", "rw", None):
        bound = perturbation_bound(data, everything, h, normalization=normalization)
        assert bound.rate == bound.at(10.0) == 0.0


def test_at_a_time():
    bound = Perturbation(rate=0.25, most=1.0, norm="euclidean")
    assert [bound.at(t) for t in (0, 2.0, 100)] == [0.0, 0.5, 1.0]
    with pytest.raises(ValueError, match="'t' to be non-negative"):
        bound.at(-1.0)
