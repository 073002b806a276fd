"""Every node in one block, blocks that fit, and few edges between them."""

from importlib.util import find_spec

import numpy as np
import pytest
import torch
from tiny_graphs import star, two_parts, undirected

from jsem_pyg.graph import GraphStructure
from jsem_pyg.neighbors import knn_graph
from jsem_pyg.partition import recursive_partition

METHODS = ["bandwidth", *(["metis"] if find_spec("pymetis") else [])]


def neighbours(num_points, seed=0, k=6):
    x = torch.randn(num_points, 3, generator=torch.Generator().manual_seed(seed))
    return knn_graph(x, k, metric="l2")[0]


def check(partition, structure, num_parts):
    """What holds of any partition."""
    size = structure.num_nodes
    assert partition.num_parts == num_parts
    assert partition.order.dtype == partition.ptr.dtype == torch.int64
    assert partition.order.sort()[0].tolist() == list(range(size))
    assert (partition.ptr[0], partition.ptr[-1]) == (0, size)
    sizes = partition.ptr.diff()
    filled = min(num_parts, size)
    assert (sizes[:filled] > 0).all()
    assert (sizes[filled:] == 0).all()
    assert partition.place[partition.order].tolist() == list(range(size))
    row, col = structure.row.tolist(), structure.col.tolist()
    for block, nodes in enumerate(partition.parts()):
        assert (partition.part[nodes] == block).all()
        inside = set(nodes.tolist())
        halo = {j for i, j in zip(row, col, strict=True) if i in inside} - inside
        assert partition.halo[block] == len(halo)


@pytest.mark.parametrize("method", METHODS)
def test_a_number_of_parts(method):
    edge_index = neighbours(300)
    structure = GraphStructure(edge_index, 300)
    for num_parts in (1, 2, 3, 7):
        partition = recursive_partition(structure, num_parts, method=method)
        check(partition, structure, num_parts)
        slots = torch.bincount(partition.part[structure.row.long()], minlength=num_parts)
        assert slots.max() <= 1.15 * structure.num_slots / num_parts
    again = recursive_partition(structure, num_parts, method=method)
    assert torch.equal(again.order, partition.order)
    assert torch.equal(again.ptr, partition.ptr)


@pytest.mark.parametrize("method", METHODS)
def test_bytes(method):
    edge_index = neighbours(400)
    structure = GraphStructure(edge_index, 400)
    partition = recursive_partition(structure, max_bytes=60_000, method=method)
    check(partition, structure, partition.num_parts)
    # Three rows of 16 float32 for each node, and one for what it needs of others, beside its edges.
    slots = torch.bincount(partition.part[structure.row.long()])
    needed = 64 * (3 * partition.ptr.diff() + partition.halo) + 8 * slots
    assert needed.max() <= 60_000
    assert needed.double().mean() >= 60_000 / 4  # no more blocks than needed, about
    twice = recursive_partition(structure, max_bytes=60_000, method=method, dtype=torch.float64)
    assert twice.num_parts > partition.num_parts
    assert recursive_partition(structure, max_bytes=10**9, method=method).num_parts == 1


@pytest.mark.parametrize("method", METHODS)
def test_a_graph_of_two_parts_is_split_between_them(method):
    partition = recursive_partition(two_parts()[0], 2, method=method, num_nodes=6)
    assert partition.halo.tolist() == [0, 0]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("edges", "num_nodes"),
    [([], 0), ([], 1), ([], 9), ([(0, 1)], 2), ([(0, 1), (2, 3)], 7), (None, 31)],
)
def test_awkward_graphs(method, edges, num_nodes):
    edge_index = star(30)[0] if edges is None else undirected(edges, num_nodes)[0]
    structure = GraphStructure(edge_index, num_nodes)
    for num_parts in (1, 3, 12):
        partition = recursive_partition(structure, num_parts, method=method)
        check(partition, structure, num_parts)
    check(recursive_partition(structure, max_bytes=10**6, method=method), structure, 1)


@pytest.mark.parametrize("method", METHODS)
def test_a_hub_fills_a_block_and_no_more(method):
    """A hub costs more than an eighth of all: no other block is small because it is there."""
    ring = undirected([(2001 + i, 2001 + (i + 1) % 500) for i in range(500)], 2501)[0]
    edge_index = torch.cat([star(2000)[0], ring], dim=1)
    sizes = recursive_partition(edge_index, 8, method=method).ptr.diff()
    assert (sizes < 20).sum() <= 1
    assert sizes.max() <= 0.4 * 2501


@pytest.mark.parametrize("method", METHODS)
def test_blocks_share_the_edges_not_the_nodes(method):
    """Twenty nodes that are all joined, and a path of a hundred beside them."""
    clique = [(i, j) for i in range(20) for j in range(i)]
    edge_index, _ = undirected(clique + [(i, i + 1) for i in range(20, 119)], 120)
    partition = recursive_partition(edge_index, 2, method=method)
    cost = 2.0 * torch.bincount(edge_index[0], minlength=120) + 4
    of_part = torch.zeros(2).index_add(0, partition.part, cost)
    assert of_part.max() <= 1.1 * of_part.mean()
    assert partition.ptr.diff().max() >= 90


def test_halves_differ_by_a_node_at_most():
    for seed in range(10):
        edge_index = neighbours(25, seed, k=3)
        cost = 2.0 * torch.bincount(edge_index[0]) + 4
        part = recursive_partition(edge_index, 2, method="bandwidth").part
        assert torch.zeros(2).index_add(0, part, cost).diff().abs() <= cost.max()


def test_less_is_cut_than_by_chance():
    edge_index = neighbours(600)
    structure = GraphStructure(edge_index, 600)
    part = torch.from_numpy(np.random.default_rng(0).integers(0, 8, 600))
    row, col = structure.row.long(), structure.col.long()
    is_cut = part[row] != part[col]
    chance = torch.unique(part[row][is_cut] * 600 + col[is_cut]).numel()
    for method in METHODS:
        found = recursive_partition(structure, 8, method=method)
        assert found.halo.sum() < 0.6 * chance
        # Rows of a block lie in a narrow band: nearer than where they stand by their numbers.
        place = found.place
        inside = found.part[row] == found.part[col]
        band = (place[row] - place[col]).abs()[inside].double().mean()
        assert band < 0.35 * 600 / 8


def test_auto_takes_what_is_installed(monkeypatch):
    edge_index = neighbours(50)

    def order(method):
        return recursive_partition(edge_index, 2, method=method).order

    assert torch.equal(order("auto"), order(METHODS[-1]))
    monkeypatch.setattr("jsem_pyg.partition.split.methods.find_spec", lambda package: None)
    assert torch.equal(order("auto"), order("bandwidth"))
    with pytest.raises(ValueError, match="pymetis is not installed"):
        recursive_partition(edge_index, 2, method="metis")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_parts": None}, "either 'num_parts' or 'max_bytes' .got None"),
        ({"max_bytes": 100}, "either 'num_parts' or 'max_bytes' .got 2 and 100"),
        ({"num_parts": None, "max_bytes": 100}, "'max_bytes' to hold every single row .* node"),
        ({"edge_index": GraphStructure(*two_parts()), "num_nodes": 7}, "'num_nodes' to be 6"),
    ],
)
def test_what_is_refused(changes, message):
    given = {"edge_index": two_parts()[0], "num_parts": 2, "num_nodes": 6} | changes
    with pytest.raises(ValueError, match=message):
        recursive_partition(**given)
