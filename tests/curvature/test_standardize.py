import pytest
import torch

from jsem_pyg.curvature import robust_standardize


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, 2.0, 4.0], [-1 / 1.4826, 0.0, 2 / 1.4826]),
        ([1.0, 2.0, 4.0, 9.0], [-2 / 2.2239, -1 / 2.2239, 1 / 2.2239, 6 / 2.2239]),
        # The median deviation vanishes; the mean deviation is 1.
        ([5.0, 5.0, 5.0, 9.0], [0.0, 0.0, 0.0, 4 / 1.2533]),
        ([7.0, 7.0], [0.0, 0.0]),
        ([], []),
    ],
)
def test_by_hand(values, expected):
    torch.testing.assert_close(robust_standardize(torch.tensor(values)), torch.tensor(expected))


def test_rounding_is_not_blown_up():
    values = 3 + torch.tensor([0.0, 1e-15, -1e-15, 2e-15], dtype=torch.float64)
    assert (robust_standardize(values) == 0).all()
    assert (robust_standardize(values - 3) == 0).all()


def test_rounding_below_zero_is_that_of_the_size():
    values = -1e6 + torch.tensor([0.0, 0.0625, -0.0625, 0.125])  # one step of float32, or two
    assert (robust_standardize(values) == 0).all()


def test_groups_are_standardised_apart_in_any_order():
    generator = torch.Generator().manual_seed(0)
    values = (torch.randn(60, generator=generator) * 9).round()  # ties, also between groups
    group = torch.tensor([0, 0, 2, 2, 2, 4]).repeat(10)[torch.randperm(60, generator=generator)]
    result = robust_standardize(values, group)
    assert torch.equal(result, robust_standardize(values, group.to(torch.uint8)))
    for i in (0, 2, 4):
        torch.testing.assert_close(result[group == i], robust_standardize(values[group == i]))


def test_an_outlier_moves_the_others_little():
    values = torch.randn(101, generator=torch.Generator().manual_seed(0)).double()
    moved = values.clone()
    moved[values.argmax()] = 1e9
    kept = values != values.max()
    torch.testing.assert_close(
        robust_standardize(moved)[kept], robust_standardize(values)[kept], atol=1e-6, rtol=0
    )


@pytest.mark.parametrize("unit", [1.0, -1.0])
def test_each_group_has_a_rounding_of_its_own(unit):
    """The first group differs by rounding only; the second has small values that differ."""
    values = unit * torch.tensor([1e6, 1e6 + 0.0625, 1e6 - 0.0625, 1.0, 1.001, 1.002])
    result = robust_standardize(values, torch.tensor([0, 0, 0, 1, 1, 1]))
    assert (result[:3] == 0).all()
    assert result[5] * unit > 0.5
