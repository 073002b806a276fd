import pytest
import torch

from jsem_pyg.neighbors import knn_graph

SMALL = 128
SIZES = [7, 40, SMALL, SMALL + 30, 5, 41]
TINY = [2, 9, 1, 3, 1, 2, SMALL + 2]


def graphs(dtype=torch.float32, seed=0):
    """Graphs below and above the size that all pairs are searched for, some with duplicates."""
    generator = torch.Generator().manual_seed(seed)
    parts = [torch.randn(size, 3, generator=generator) for size in SIZES]
    parts[1][10:30] = parts[1][0].clone()
    parts[4][:] = 1.0
    return [part.to(dtype) * 10.0 ** (i - 3) for i, part in enumerate(parts)]  # and in any unit


def expected_edges(parts, **options):
    offset, edges, weights = 0, [], []
    for part in parts:
        edge_index, edge_weight = knn_graph(part, **options)
        edges.append(edge_index + offset)
        weights.append(edge_weight)
        offset += part.size(0)
    return torch.cat(edges, dim=1), torch.cat(weights)


@pytest.mark.parametrize(
    ("metric", "kernel", "symmetrize", "connect"),
    [
        ("cosine", "gaussian", "max", True),
        ("cosine", "self_tuning", "mutual", True),
        ("l2", "gaussian", "mean", True),
        ("l2", "self_tuning", "max", False),
        ("l2", None, "mutual", True),
    ],
)
def test_a_batch_gives_what_its_graphs_give(metric, kernel, symmetrize, connect):
    parts = graphs()
    options = {"kernel": kernel, "symmetrize": symmetrize, "connect": connect, "metric": metric}
    batch = torch.arange(len(SIZES)).repeat_interleave(torch.tensor(SIZES))
    edge_index, edge_weight = knn_graph(torch.cat(parts), 2, batch=batch, **options)
    expected_index, expected_weight = expected_edges(parts, k=2, **options)
    assert torch.equal(edge_index, expected_index)
    assert torch.equal(edge_weight, expected_weight)


@pytest.mark.parametrize("k", [1, 8, 400])
@pytest.mark.parametrize(
    ("kernel", "symmetrize"),
    [("gaussian", "max"), ("self_tuning", "mean"), ("cosine", "mutual"), (None, "max")],
)
def test_graphs_of_no_more_than_k_points_are_complete(kernel, symmetrize, k, caplog):
    parts = [points + 1 for points in torch.rand(sum(TINY), 3).split(TINY)]
    options = {"k": k, "kernel": kernel, "symmetrize": symmetrize, "connect": False}
    batch = torch.arange(len(TINY)).repeat_interleave(torch.tensor(TINY))
    edge_index, edge_weight = knn_graph(torch.cat(parts), batch=batch, **options)
    expected_index, expected_weight = expected_edges(parts, **options)
    assert torch.equal(edge_index, expected_index)
    assert torch.equal(edge_weight, expected_weight)
    assert ((edge_weight > 0) & (edge_weight <= 1)).all()
    few = [size for size in TINY if size <= k]
    assert f"k={k} neighbours were asked for, but {len(few)} of 7 graphs" in caplog.text
    for graph in range(len(TINY)):
        edges = int((batch[edge_index[0]] == graph).sum())
        assert edges == TINY[graph] * (TINY[graph] - 1) or TINY[graph] > k


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_graphs_of_a_batch_may_be_interleaved_and_numbered_freely(dtype):
    parts = graphs(dtype)
    batch = torch.tensor([3, 1, 40, 9, 8, 0]).repeat_interleave(torch.tensor(SIZES))
    order = torch.randperm(batch.numel(), generator=torch.Generator().manual_seed(0))
    x, batch = torch.cat(parts)[order], batch[order]
    edge_index, edge_weight = knn_graph(x, 3, batch=batch)
    assert ((edge_index[0] * batch.numel() + edge_index[1]).diff() > 0).all()
    for graph in batch.unique():
        nodes = (batch == graph).nonzero()[:, 0]
        inside = batch[edge_index[0]] == graph
        alone_index, alone_weight = knn_graph(x[nodes], 3)
        assert torch.equal(edge_index[:, inside], nodes[alone_index])
        assert torch.equal(edge_weight[inside], alone_weight)
