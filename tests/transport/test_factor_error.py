import logging

import pytest
import torch

from jsem_pyg.transport.costs.factor_error import (
    column_error,
    relative_norm,
    smallest_rank,
    warn_if_large,
)


def points(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("kind", ["kernel", "sqdist"])
def test_all_columns_tell_the_error(kind):
    x, exact = points(6, 2), points(6, 4, seed=1)
    kernel, found = exact @ exact.T, x @ x.T
    if kind == "sqdist":
        expected = torch.cdist(x, x).square(), torch.cdist(exact, exact).square()
    else:
        expected = found, kernel
    error = float((expected[0] - expected[1]).norm() / expected[1].norm())
    assert column_error(x, torch.arange(6), kernel, kind) == pytest.approx(error)
    some = torch.tensor([4, 1])
    columns = column_error(x, some, kernel[:, some], "kernel")
    assert columns == pytest.approx(relative_norm((found - kernel)[:, some], kernel[:, some]))


def test_ranks():
    value = torch.tensor([3.0, -4.0 / 3, 0.1, 0.0])
    assert smallest_rank(value, 0.0) == 3
    assert smallest_rank(value, 0.05) == 2
    assert smallest_rank(value, 0.5) == 1
    assert smallest_rank(torch.zeros(3), 0.0) == 1


def test_large_errors_are_said(caplog):
    with caplog.at_level(logging.WARNING):
        warn_if_large("A cost", 0.04, "wait")
        assert not caplog.text
        warn_if_large("A cost", 0.06, "wait")
    assert "A cost: the factor differs from its matrix by 0.06" in caplog.text
    assert "wait" in caplog.text
