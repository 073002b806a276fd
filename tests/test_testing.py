"""The public assertions notice what is wrong."""

import pytest
import torch
from laws import assert_heat_laws, assert_permutation_equivariant

EDGES, WEIGHT = torch.tensor([[0, 1], [1, 0]]), torch.ones(2)


@pytest.mark.parametrize("unit", [1e-30, 1.0, 1e30])
def test_heat_laws_in_any_unit(unit):
    x = unit * torch.tensor([[1.0], [-2.0]], dtype=torch.float64)
    assert_heat_laws(lambda x, t: x * 2.0**-t, x)
    with pytest.raises(AssertionError, match=r"t = 0 and the identity: a relative error of 0\.01"):
        assert_heat_laws(lambda x, t: x * 1.01, x)
    with pytest.raises(AssertionError, match="t = 2.3: a relative error"):
        assert_heat_laws(lambda x, t: x * (1 - t / 4), x)


def test_two_nodes_are_renumbered():
    with pytest.raises(AssertionError, match="a graph and its renumbering"):
        assert_permutation_equivariant(
            lambda x, *_: x * torch.tensor([[1.0], [2.0]]), torch.ones(2, 1), EDGES, WEIGHT
        )


@pytest.mark.parametrize("wrong", [torch.nan, torch.inf])
def test_no_number_is_no_result(wrong):
    with pytest.raises(AssertionError, match="relative error"):
        assert_heat_laws(lambda x, t: x * wrong, torch.ones(2, 1))
