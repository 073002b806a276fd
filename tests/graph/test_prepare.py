"""Where a look at values makes a device wait, the first one is enough; on a CPU none is spared."""

from types import SimpleNamespace

import pytest
import torch

from jsem_pyg.graph import GraphStructure


def make():
    return GraphStructure(torch.tensor([[0, 1], [1, 0]]), 2)


@pytest.mark.parametrize(("device", "looks"), [("cpu", 3), ("cuda", 1)])
def test_how_often_values_are_looked_at(device, looks):
    values, seen, structure = SimpleNamespace(device=torch.device(device)), [], make()
    for _ in range(3):
        structure.check_once("x", values, seen.append)
    structure.check_once("edge_weight", values, seen.append)
    assert seen == [values] * (looks + 1)  # each name by itself


def test_what_fails_is_looked_at_again():
    values, structure = SimpleNamespace(device=torch.device("cuda")), make()

    def fail(_):
        raise ValueError("bad")

    for _ in range(2):
        with pytest.raises(ValueError, match="bad"):
            structure.check_once("x", values, fail)
