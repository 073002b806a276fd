"""A partition refuses what is none."""

import pytest
import torch

from jsem_pyg.partition import Partition

ORDER, PTR = torch.tensor([2, 0, 1]), torch.tensor([0, 1, 1, 3])


def test_blocks_by_hand():
    partition = Partition(ORDER, PTR)
    assert [part.tolist() for part in partition.parts()] == [[2], [], [0, 1]]
    assert partition.part.tolist() == [2, 2, 0]
    assert partition.place.tolist() == [1, 2, 0]
    assert (partition.num_nodes, partition.num_parts) == (3, 3)
    assert repr(partition) == "Partition(num_nodes=3, num_parts=3)"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"order": torch.tensor([2, 0, 2])}, "'order' to hold every node"),
        ({"order": torch.tensor([3, 0, 1])}, "'order' to hold every node"),
        ({"ptr": torch.tensor([0, 2, 1, 3])}, "'ptr' to rise"),
        ({"ptr": torch.tensor([1, 3])}, "'ptr' to rise"),
        ({"ptr": torch.tensor([0])}, "'ptr' to rise"),
        ({"ptr": torch.tensor([0, 4])}, "'ptr' to end at 3"),
    ],
)
def test_what_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        Partition(**{"order": ORDER, "ptr": PTR} | changes)
