"""Orders are permutations, made once, where they pay, and whatever happened before."""

import logging

import pytest
import torch
from laws import random_graph

from jsem_pyg.graph import GraphStructure
from jsem_pyg.kernels.bandwidth import bandwidth_order
from jsem_pyg.kernels.csr import CSR, given_order
from jsem_pyg.kernels.ordering import choose_for_series, choose_ordering, locality_order, new_share

ORDERINGS = [given_order, bandwidth_order, locality_order]


def grid(side, shuffle=True):
    """A square grid, its nodes in no order."""
    node = torch.arange(side * side).view(side, side)
    pairs = [(node[:, :-1], node[:, 1:]), (node[:-1], node[1:])]
    one_way = torch.cat([torch.stack([a.flatten(), b.flatten()]) for a, b in pairs], dim=1)
    if shuffle:
        permuted = torch.randperm(side * side, generator=torch.Generator().manual_seed(0))
        one_way = permuted[one_way]
    return GraphStructure(torch.cat([one_way, one_way.flip(0)], dim=1), side * side)


def reordered(csr, order):
    """The pattern with its rows in another order, columns ascending."""
    row, col = order.place[csr.row.long()].long(), order.place[csr.col.long()].long()
    by_place = (row * csr.num_rows + col).argsort()
    rowptr = torch.bincount(row, minlength=csr.num_rows).cumsum(0)
    return CSR(torch.cat([rowptr.new_zeros(1), rowptr]), col[by_place].int())


@pytest.mark.parametrize("make", ORDERINGS)
@pytest.mark.parametrize("num_nodes", [0, 1, 2, 7, 300, 1000])
@pytest.mark.parametrize("probability", [0.0, 0.003, 0.02])
def test_an_order_holds_every_node_once(make, num_nodes, probability):
    edge_index, _ = random_graph(num_nodes, probability)
    csr = GraphStructure(edge_index, num_nodes).csr
    node, place = csr.derived(make)
    assert node.dtype == place.dtype == torch.int32
    assert node.sort()[0].tolist() == list(range(num_nodes))
    assert place[node.long()].tolist() == list(range(num_nodes))


def test_better_orders_gather_fewer_new_rows():
    csr = grid(90).csr
    shares = [new_share(reordered(csr, csr.derived(make))) for make in ORDERINGS]
    assert shares[0] > 0.8
    assert shares[1] < 0.4 * shares[0]
    assert shares[2] < shares[1]


def test_the_share_of_new_rows_by_hand():
    """Rows that ask for each other alone: each is new once."""
    pairs = torch.arange(6000) ^ 1
    csr = GraphStructure(torch.stack([torch.arange(6000), pairs]), 6000).csr
    assert new_share(csr) == 1.0
    complete = torch.combinations(torch.arange(50)).T
    csr = GraphStructure(torch.cat([complete, complete.flip(0)], dim=1), 50).csr
    assert new_share(csr) == 50 / (50 * 49)
    assert new_share(GraphStructure(torch.empty(2, 0, dtype=torch.int64), 5).csr) == 0.0


def edges_per_gathered_row(csr, ordering, rows=16):
    order = csr.derived(ordering).node.tolist()
    neighbours = [set(csr.col[csr.rowptr[i] : csr.rowptr[i + 1]].tolist()) for i in order]
    windows = [neighbours[at : at + rows] for at in range(0, csr.num_rows, rows)]
    return csr.num_slots / sum(len(set.union(*each)) for each in windows)


def test_rows_of_a_window_share_neighbours():
    """Most in the order that is made for it, on a graph whose nodes come in none."""
    csr = grid(50).csr
    found = [edges_per_gathered_row(csr, make) for make in ORDERINGS]
    assert found[0] < 1.1 < found[1] < 0.9 * found[2]


@pytest.mark.parametrize("num_parts", [2, 40])
def test_an_order_of_parts_keeps_them_together(num_parts):
    """Also if most of them are single nodes."""
    pieces = [random_graph(30, 0.2, seed=seed)[0] + 30 * seed for seed in range(num_parts)]
    mixed = torch.randperm(33 * num_parts, generator=torch.Generator().manual_seed(0))
    csr = GraphStructure(mixed[torch.cat(pieces, dim=1)], 33 * num_parts).csr
    assert csr.derived(locality_order).node.sort()[0].tolist() == list(range(33 * num_parts))
    given, local = (edges_per_gathered_row(csr, make) for make in (given_order, locality_order))
    assert local > 1.5 * given


def test_what_is_chosen():
    small, large = grid(60).csr, grid(130).csr
    # It fits a cache, however often it is visited.
    assert choose_for_series(small, 64, 10**6, trains=True) is given_order
    # An order costs more than it saves.
    assert choose_for_series(large, 128, 10, trains=False) is given_order
    assert choose_for_series(large, 128, 200, trains=False) is bandwidth_order
    # A long training repays the better order.
    assert choose_for_series(large, 128, 60, trains=True) is locality_order
    # The choice does not depend on what happened before.
    order = large.derived(locality_order)
    assert choose_for_series(large, 128, 10, trains=False) is given_order
    # A good order is kept.
    assert choose_for_series(reordered(large, order), 128, 60, trains=True) is given_order


def test_an_order_serves_the_pattern_with_its_diagonal_too(caplog):
    structure = grid(130)
    wide = structure.csr_with_diagonal[0]
    with caplog.at_level(logging.INFO, "jsem_pyg.kernels.bandwidth"):
        for csr in (structure.csr, wide, structure.csr, wide):
            assert choose_ordering(csr, 128, 1e4) is locality_order
            csr.derived(locality_order)
    for make in (bandwidth_order, locality_order):
        assert wide.derived(make) is structure.csr.derived(make)
    assert [each.count("16900 nodes") for each in caplog.messages] == [1, 1]  # each is made once
