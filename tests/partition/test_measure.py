"""Blocks follow the time that they have taken."""

import pytest
import torch
from partition.test_recursive import neighbours

from jsem_pyg.partition import Partition, measured_cost, recursive_partition


def test_measured_blocks_share_the_time_evenly():
    pytest.importorskip("pymetis")
    edge_index, _ = neighbours(400)
    first = recursive_partition(edge_index, 4, method="metis")
    seconds = torch.tensor([1.0, 1.0, 1.0, 5.0])
    cost = measured_cost(edge_index, first, seconds)
    assert cost.shape == (400,)
    of_block = torch.zeros(4).double().index_add(0, first.part, cost)
    torch.testing.assert_close(of_block, 1e9 * seconds.double())
    second = recursive_partition(edge_index, 4, method="metis", cost=cost)
    taken = torch.zeros(4).double().index_add(0, second.part, cost)
    assert taken.max() < 1.2 * taken.mean()
    assert second.ptr.diff().min() < 0.5 * first.ptr.diff().min()


def test_time_is_measured_where_nobody_says_it():
    edge_index, _ = neighbours(300)
    partition = recursive_partition(edge_index, 3, method="bandwidth", num_nodes=300)
    cost = measured_cost(edge_index, partition)
    assert (cost > 0).all()
    empty = recursive_partition(torch.empty(2, 0, dtype=torch.int64), 3, num_nodes=2)
    assert (measured_cost(torch.empty(2, 0, dtype=torch.int64), empty) > 0).all()


def test_rows_without_time_cost_little():
    partition = Partition(torch.arange(3), torch.tensor([0, 2, 3]))
    cost = measured_cost(torch.tensor([[0, 1], [1, 0]]), partition, torch.tensor([1e-6, 0.0]))
    assert cost.tolist() == pytest.approx([500.0, 500.0, 1.0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seconds": torch.ones(3)}, "'seconds'"),
        ({"seconds": torch.tensor([1.0, -1.0])}, "'seconds' to be non-negative"),
        ({"seconds": torch.tensor([1.0, float("nan")])}, "'seconds'"),
        ({"channels": 0}, "'channels'"),
        ({"edge_index": torch.tensor([[0, 5], [5, 0]])}, "'edge_index'"),
    ],
)
def test_what_is_refused(changes, message):
    partition = Partition(torch.arange(3), torch.tensor([0, 2, 3]))
    given = {"edge_index": torch.tensor([[0, 1], [1, 0]]), "partition": partition}
    with pytest.raises(ValueError, match=message):
        measured_cost(**given | changes)
