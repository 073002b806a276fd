"""Every node in one block, blocks that fit, and few edges between them."""

from importlib.util import find_spec

import numpy as np
import pytest
import torch
from tiny_graphs import two_parts

from jsem_pyg.graph import GraphStructure, knn_graph
from jsem_pyg.partition import recursive_partition
from jsem_pyg.partition.budget import working_set

METHODS = [*(["metis"] if find_spec("pymetis") else []), "hilbert", "bandwidth"]


def undirected(*edges):
    one_way = torch.tensor(edges).reshape(-1, 2).T
    return torch.cat([one_way, one_way.flip(0)], dim=1)


def star(leaves):
    return undirected(*((0, leaf) for leaf in range(1, leaves + 1)))


def neighbours(num_points, seed=0, k=6):
    x = torch.randn(num_points, 3, generator=torch.Generator().manual_seed(seed))
    return knn_graph(x, k, metric="l2")[0], x


def check(partition, structure):
    """What holds of any partition."""
    size = structure.num_nodes
    assert partition.order.dtype == partition.ptr.dtype == torch.int64
    assert partition.order.sort()[0].tolist() == list(range(size))
    assert partition.ptr[0] == 0
    assert partition.ptr[-1] == size
    assert (partition.ptr.diff() >= 0).all()
    assert partition.place[partition.order].tolist() == list(range(size))
    for block, nodes in enumerate(partition.parts()):
        assert (partition.part[nodes] == block).all()
        inside = set(nodes.tolist())
        row, col = structure.row.tolist(), structure.col.tolist()
        halo = {j for i, j in zip(row, col, strict=True) if i in inside} - inside
        assert partition.halo[block] == len(halo)
    check_tree(partition)


def check_tree(partition):
    """Every split cuts a range of parts in two, which is one that an earlier split has made."""
    made = {(0, len(partition.splits) + 1)}
    for first, middle, end in partition.splits.tolist():
        assert first < middle < end
        assert (first, end) in made
        made |= {(first, middle), (middle, end)}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("num_parts", [1, 2, 3, 7])
def test_a_number_of_parts(method, num_parts):
    edge_index, x = neighbours(300)
    structure = GraphStructure(edge_index, 300)
    for points in (None, x):
        partition = recursive_partition(structure, num_parts, method=method, points=points)
        check(partition, structure)
        assert partition.num_parts == num_parts
        slots = torch.bincount(partition.part[structure.row.long()], minlength=num_parts)
        assert slots.max() <= 1.15 * structure.num_slots / num_parts


@pytest.mark.parametrize("method", METHODS)
def test_bytes(method):
    edge_index, _ = neighbours(400)
    structure = GraphStructure(edge_index, 400)
    partition = recursive_partition(structure, max_bytes=60_000, method=method)
    check(partition, structure)
    slots = torch.bincount(partition.part[structure.row.long()], minlength=partition.num_parts)
    needed = [
        working_set(rows, halo, of_block, channels=16, itemsize=4)
        for rows, halo, of_block in zip(
            partition.ptr.diff().tolist(), partition.halo.tolist(), slots.tolist(), strict=True
        )
    ]
    assert max(needed) <= 60_000
    assert sum(needed) / len(needed) >= 60_000 / 4  # no more blocks than needed, about
    twice = recursive_partition(structure, max_bytes=60_000, method=method, dtype=torch.float64)
    assert twice.num_parts > partition.num_parts


def test_a_graph_of_two_parts_is_split_between_them():
    edge_index, num_nodes = two_parts()[0], 6
    for method in METHODS:
        partition = recursive_partition(edge_index, 2, method=method, num_nodes=num_nodes)
        assert partition.halo.tolist() == [0, 0], method


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("edge_index", "num_nodes"),
    [
        (torch.empty(2, 0, dtype=torch.int64), 0),
        (torch.empty(2, 0, dtype=torch.int64), 1),
        (torch.empty(2, 0, dtype=torch.int64), 9),
        (undirected((0, 1)), 2),
        (undirected((0, 1), (2, 3)), 7),
        (star(30), 31),
    ],
)
@pytest.mark.parametrize("num_parts", [1, 3, 12])
def test_awkward_graphs(method, edge_index, num_nodes, num_parts):
    structure = GraphStructure(edge_index, num_nodes)
    partition = recursive_partition(structure, num_parts, method=method)
    check(partition, structure)
    assert partition.num_parts == num_parts
    sizes = partition.ptr.diff()
    filled = min(num_parts, num_nodes)
    assert (sizes[:filled] > 0).all()
    assert (sizes[filled:] == 0).all()


def test_a_hub_attracts_no_more_splits_than_others():
    """A hub costs more than an eighth of all: still no block is split only because it is there."""
    ring = undirected(*((i, (i + 1) % 500) for i in range(500))) + 2001
    edge_index = torch.cat([star(2000), ring], dim=1)
    for method in METHODS:
        sizes = recursive_partition(edge_index, 8, method=method).ptr.diff()
        assert (sizes < 20).sum() <= 1, method
        assert sizes.max() <= 0.4 * 2501, method


def test_halves_share_the_edges_not_the_nodes():
    """Twenty nodes that are all joined, and a path of a hundred beside them."""
    clique = undirected(*((i, j) for i in range(20) for j in range(i)))
    path = undirected(*((i, i + 1) for i in range(20, 119)))
    edge_index = torch.cat([clique, path], dim=1)
    for method in set(METHODS) - {"hilbert"}:
        partition = recursive_partition(edge_index, 2, method=method)
        degree = torch.bincount(edge_index[0], minlength=120)
        cost = torch.zeros(2).index_add(0, partition.part, 2.0 * degree + 4)
        assert cost.max() <= 1.1 * cost.mean(), method
        assert partition.ptr.diff().max() >= 90, method


def test_what_costs_more_is_split_more():
    pytest.importorskip("pymetis")
    edge_index, x = neighbours(200)
    cost = torch.where(x[:, 0] > 0.7, 20.0, 1.0)
    partition = recursive_partition(edge_index, 4, method="metis", cost=cost)
    of_part = torch.zeros(4).index_add(0, partition.part, cost)
    assert of_part.max() <= 1.25 * of_part.mean()
    assert partition.ptr.diff().max() > 2 * partition.ptr.diff().min()


def test_the_same_call_gives_the_same_partition():
    edge_index, _ = neighbours(300)
    for method in METHODS:
        first, second = (recursive_partition(edge_index, 5, method=method) for _ in range(2))
        assert torch.equal(first.order, second.order)
        assert torch.equal(first.ptr, second.ptr)


def test_metis_cuts_less_than_chance():
    edge_index, _ = neighbours(600)
    structure = GraphStructure(edge_index, 600)
    halo = {
        method: int(recursive_partition(structure, 8, method=method).halo.sum())
        for method in METHODS
    }
    part = torch.from_numpy(np.random.default_rng(0).integers(0, 8, 600))
    row, col = structure.row.long(), structure.col.long()
    is_cut = part[row] != part[col]
    chance = torch.unique(part[row][is_cut] * 600 + col[is_cut]).numel()
    assert all(each < 0.6 * chance for each in halo.values())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_parts": None}, "either 'num_parts' or 'max_bytes' .got none"),
        ({"max_bytes": 100}, "either 'num_parts' or 'max_bytes' .got both"),
        ({"num_parts": 0}, "'num_parts' to be a positive integer"),
        ({"method": "best"}, "'method' to be one of"),
        ({"num_parts": None, "max_bytes": 100}, "'max_bytes' to hold every single row .* node"),
        ({"cost": torch.zeros(6)}, "'cost' to be positive"),
        ({"cost": torch.ones(5)}, "'cost'"),
        ({"points": torch.ones(5, 2), "method": "hilbert"}, "'points'"),
        ({"num_nodes": 3}, "'edge_index'"),
    ],
)
def test_what_is_refused(changes, message):
    given = {"edge_index": two_parts()[0], "num_parts": 2, "num_nodes": 6} | changes
    with pytest.raises(ValueError, match=message):
        recursive_partition(**given)
