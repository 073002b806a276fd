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


def test_a_normal_sample_gets_mean_zero_and_variance_one():
    values = 5 + 3 * torch.randn(20_000, generator=torch.Generator().manual_seed(0))
    result = robust_standardize(values)
    assert abs(float(result.mean())) < 0.03
    assert abs(float(result.std()) - 1) < 0.03


def test_groups_are_standardised_apart_in_any_order():
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(60, generator=generator)
    group = torch.tensor([0, 0, 2, 2, 2, 4]).repeat(10)[torch.randperm(60, generator=generator)]
    result = robust_standardize(values, group, num_groups=6)
    assert torch.equal(result, robust_standardize(values, group))
    for i in (0, 2, 4):
        torch.testing.assert_close(result[group == i], robust_standardize(values[group == i]))
