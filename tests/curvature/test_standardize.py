import pytest
import torch

from jsem_pyg.curvature import Standardizer, robust_standardize


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


class TestStandardizer:
    def values(self):
        values = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
        return (values * torch.tensor([1.0, 10.0, 0.0]) * 4).round()  # ties, and a constant

    def test_scales_what_it_was_fitted_on_as_the_function_does(self):
        values = self.values()
        result = Standardizer().fit(values).transform(values)
        for column, expected in zip(result.T, values.T, strict=True):
            torch.testing.assert_close(column, robust_standardize(expected))
        flat = Standardizer().fit(values[:, 0]).transform(values[:, 0])
        assert torch.equal(flat, result[:, 0])

    def test_scales_new_values_the_same_way(self):
        standardizer = Standardizer().fit(self.values())
        known = standardizer.transform(self.values())
        new = torch.cat([self.values()[:5], 1000 + self.values()])
        torch.testing.assert_close(standardizer.transform(new)[:5], known[:5])
        assert standardizer.transform(new[:0]).shape == (0, 3)

    def test_is_monotone_and_finite_far_outside(self):
        standardizer = Standardizer().fit(self.values()[:, 0])
        grid = torch.cat(
            [torch.tensor([-1e30]), torch.linspace(-20, 20, 401), torch.tensor([1e30])]
        )
        result = standardizer.transform(grid)
        assert result.isfinite().all()
        assert (result.diff() >= 0).all()
        assert result[0] < -1
        assert result[-1] > 1

    def test_keeps_the_type_of_what_it_transforms(self):
        standardizer = Standardizer().fit(self.values().double())
        expected = standardizer.transform(self.values().double())
        for dtype in (torch.float16, torch.bfloat16, torch.float32):
            result = standardizer.transform(self.values().to(dtype))
            assert result.dtype == dtype
            torch.testing.assert_close(result.double(), expected, rtol=1e-2, atol=1e-2)

    def test_refuses(self):
        standardizer = Standardizer()
        with pytest.raises(RuntimeError, match=r"Standardizer\(\) to be fitted.*call fit"):
            standardizer.transform(self.values())
        for shape in ((0, 2), (2, 0)):
            with pytest.raises(ValueError, match="to hold numbers to be fitted on"):
                standardizer.fit(torch.empty(shape))
        with pytest.raises(ValueError, match=r"shape \[E\] or \[E, F\] \(got \[2, 2, 2\]\)"):
            standardizer.fit(torch.ones(2, 2, 2))
        with pytest.raises(ValueError, match="finite"):
            standardizer.fit(torch.tensor([1.0, torch.nan]))
        standardizer.fit(self.values())
        for other in (torch.ones(3), torch.ones(3, 2)):
            with pytest.raises(ValueError, match=r"shape \[E, 3\], as those it was fitted on"):
                standardizer.transform(other)
        with pytest.raises(ValueError, match="finite"):
            standardizer.transform(torch.full((2, 3), torch.inf))


def test_a_column_that_was_constant_stays_zero():
    standardizer = Standardizer().fit(torch.full((4,), 7.0))
    assert standardizer.transform(torch.tensor([7.0, 8.0])).tolist() == [0.0, 0.0]


def test_rounding_is_not_blown_up_either_when_it_is_remembered():
    values = 3 + 1e-7 * torch.tensor([0.0, 1.0, -1.0, 2.0])
    assert (Standardizer().fit(values).transform(values) == 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_sums_do_not_leave_the_type(dtype):
    """Half of the values are equal, so that a mean counts; and the largest of the type."""
    values = torch.cat([torch.zeros(3000), torch.ones(2000)]).to(dtype)
    if dtype != torch.float64:
        values = values * torch.finfo(dtype).max
    expected = robust_standardize(values.double()).to(dtype)
    torch.testing.assert_close(robust_standardize(values), expected)
    torch.testing.assert_close(Standardizer().fit(values).transform(values), expected)


@pytest.mark.parametrize("unit", [1.0, -1.0])
def test_each_group_has_a_rounding_of_its_own(unit):
    """The first group differs by rounding only; the second has small values that differ."""
    values = unit * torch.tensor([1e6, 1e6 + 0.0625, 1e6 - 0.0625, 1.0, 1.001, 1.002])
    result = robust_standardize(values, torch.tensor([0, 0, 0, 1, 1, 1]))
    assert (result[:3] == 0).all()
    assert result[5] * unit > 0.5
