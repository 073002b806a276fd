"""From lists of edges to sorted patterns: every backend against the definition."""

import pytest
import torch
from kernels.edges import definition
from laws import random_graph

from jsem_pyg.kernels.csr import sort_by_key, sort_edges

BACKENDS = {"numba": sort_edges, "torch": sort_by_key}
GRAPHS = {
    "one node": (torch.empty(2, 0, dtype=torch.long), 1),
    "no nodes": (torch.empty(2, 0, dtype=torch.long), 0),
    "no edges": (torch.empty(2, 0, dtype=torch.long), 5),
    "one edge": (torch.tensor([[0, 1], [1, 0]]), 2),
    "sparse": (random_graph(40, 0.05, num_isolated=3)[0], 40),
    "dense": (random_graph(20, 0.8)[0], 20),
}


def orders(edge_index):
    """Edges as they come: sorted by source, by target, not at all, and some of them again."""
    yield edge_index
    yield edge_index.flip(0)
    for seed in range(3):
        order = torch.randperm(edge_index.size(1), generator=torch.Generator().manual_seed(seed))
        yield edge_index[:, order]
        yield torch.cat([edge_index, edge_index[:, order[: seed * 2]]], dim=1)


def layouts(edge_index):
    """The same numbers in other memory: strided, transposed, sliced, of another type."""
    yield edge_index
    yield edge_index.int()
    yield edge_index.t().contiguous().t()
    wide = torch.full((2, 2 * edge_index.size(1) + 1), -7)
    wide[:, 1::2] = edge_index
    yield wide[:, 1::2]


def assert_same(found, expected):
    assert torch.equal(found[0].rowptr, expected[0].rowptr)
    assert found[0].rowptr.dtype == torch.int64
    pairs = zip((found[0].col, *found[1:]), (expected[0].col, *expected[1:]), strict=True)
    for one, other in pairs:
        assert (one is None) == (other is None)
        if one is not None:
            assert one.dtype == torch.int32
            assert torch.equal(one, other)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", GRAPHS)
def test_backends_agree_with_the_definition(backend, name):
    edge_index, num_nodes = GRAPHS[name]
    for ordered in orders(edge_index):
        expected = definition.sort_edges(*ordered, num_nodes)
        for form in layouts(ordered):
            found = BACKENDS[backend](*form, num_nodes)
            assert_same(found, expected)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("extra", [False, True])  # whether the graph is unsorted beside
@pytest.mark.parametrize(
    "edges",
    [
        [(0, 1), (1, 2)],  # no reverse
        [(0, 1)],
        [(1, 0)],
        [(0, 1), (1, 2), (2, 0)],
        [(0, 1), (1, 0), (1, 1)],  # a loop
        [(0, 1), (0, 1)],  # repeated, without its reverse
        [(0, 1), (1, 0), (1, 3), (3, 1)],  # outside
        [(3, 1), (0, 1), (1, 0), (1, 3)],
        [(-1, 1)],
        [(-1, 2), (0, 1), (1, 0)],
        [(0, 1), (1, 0), (2, 3)],
        [(-1, 1), (0, 1), (1, -1), (1, 0)],
        [(0, 1), (1, 0), (-1, 1), (1, -1)],
    ],
)
def test_other_graphs_are_not_read(backend, edges, extra):
    edges = [(2, 0), (0, 2), *edges] if extra and (2, 0) not in edges else edges
    row, col = torch.tensor(edges).T
    sort_edges = BACKENDS[backend]
    assert sort_edges(row, col, 3) is None
    assert sort_edges(row.flip(0), col.flip(0), 3) is None


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_comes_in_may_change_afterwards(backend):
    edge_index = torch.tensor([[0, 1], [1, 0]], dtype=torch.int32)
    found = BACKENDS[backend](*edge_index, 2)
    edge_index.zero_()
    assert found[0].col.tolist() == [1, 0]
