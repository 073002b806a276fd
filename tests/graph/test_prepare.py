"""Where a look at values makes a device wait, the first one is enough; on a CPU none is spared."""

from types import SimpleNamespace

import pytest
import torch

from jsem_pyg.graph.memory import CheckLog
from jsem_pyg.graph.prepare import Reader


@pytest.mark.parametrize(("device", "looks"), [("cpu", 3), ("cuda", 1)])
def test_how_often_values_are_looked_at(device, looks):
    values, seen, log = SimpleNamespace(device=torch.device(device)), [], CheckLog()
    for _ in range(3):
        Reader._check(log, "x", values, values, seen.append)
    assert seen == [values] * looks


def test_what_fails_is_looked_at_again():
    values, log = SimpleNamespace(device=torch.device("cuda")), CheckLog()

    def fail(_):
        raise ValueError("bad")

    for _ in range(2):
        with pytest.raises(ValueError, match="bad"):
            Reader._check(log, "x", values, values, fail)


def test_a_log_keeps_every_name():
    log = CheckLog()
    log.note_passed("x")
    log.note_passed("edge_weight")
    assert log.has_passed("x")
    assert log.has_passed("edge_weight")
    assert not log.has_passed("edge_attr")
