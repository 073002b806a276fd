import pickle

import pytest
import torch
from scipy.stats import norm, rankdata

from jsem_pyg.curvature import Standardizer, rank_standardize, robust_standardize
from jsem_pyg.curvature.standardize import STANDARDIZATIONS


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


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_neither_sums_nor_differences_leave_the_type(dtype):
    """Half of a column is equal, so that the mean deviation counts; and entries of any size."""
    half_equal = torch.cat([torch.zeros(3000), torch.ones(2000)]).to(dtype)
    expected = robust_standardize(half_equal.double()).to(dtype)
    torch.testing.assert_close(robust_standardize(half_equal), expected)
    fitted = Standardizer().fit(half_equal)
    torch.testing.assert_close(fitted.transform(half_equal), expected)
    largest = torch.finfo(dtype).max
    values = torch.tensor([1.0, 0.97, -0.9, -1.0, 0.5, 0.9], dtype=torch.float64)
    expected = robust_standardize(values.to(dtype).double()).to(dtype)
    torch.testing.assert_close(robust_standardize(values.to(dtype) * largest), expected)
    fitted = Standardizer().fit(values.to(dtype) * largest)
    torch.testing.assert_close(fitted.transform(values.to(dtype) * largest), expected)


def test_a_normal_sample_gets_mean_zero_and_variance_one():
    values = 5 + 3 * torch.randn(20_000, generator=torch.Generator().manual_seed(0))
    result = robust_standardize(values)
    assert abs(float(result.mean())) < 0.03
    assert abs(float(result.std()) - 1) < 0.03


@pytest.mark.parametrize("standardize", [robust_standardize, rank_standardize])
def test_groups_are_standardised_apart_in_any_order(standardize):
    generator = torch.Generator().manual_seed(0)
    values = (torch.randn(60, generator=generator) * 9).round()  # ties, also between groups
    group = torch.tensor([0, 0, 2, 2, 2, 4]).repeat(10)[torch.randperm(60, generator=generator)]
    result = standardize(values, group, num_groups=6)
    assert torch.equal(result, standardize(values, group))
    for i in (0, 2, 4):
        torch.testing.assert_close(result[group == i], standardize(values[group == i]))


@pytest.mark.parametrize(
    ("values", "quantiles"),
    [
        ([3.0, -1.0, 9.0], [2 / 4, 1 / 4, 3 / 4]),
        ([1.0, 1.0, 5.0, 1.0], [2 / 5, 2 / 5, 4 / 5, 2 / 5]),  # ranks 1, 2, 3 have the mean 2
        ([7.0, 7.0], [0.5, 0.5]),
        ([], []),
    ],
)
def test_ranks_by_hand(values, quantiles):
    expected = torch.special.ndtri(torch.tensor(quantiles))
    torch.testing.assert_close(rank_standardize(torch.tensor(values)), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_ranks_equal_those_of_scipy(dtype):
    values = torch.randn(200, generator=torch.Generator().manual_seed(0), dtype=dtype)
    values = (values * 4).round()  # so that there are ties
    expected = norm.ppf(rankdata(values) / 201)
    result = rank_standardize(values)
    torch.testing.assert_close(result, torch.from_numpy(expected).to(dtype))


def test_ranks_see_the_order_only():
    values = torch.randn(100, generator=torch.Generator().manual_seed(0))
    assert torch.equal(rank_standardize(values), rank_standardize(values.exp()))


@pytest.mark.parametrize("standardize", [robust_standardize, rank_standardize])
def test_an_outlier_moves_the_others_little(standardize):
    values = torch.randn(101, generator=torch.Generator().manual_seed(0)).double()
    moved = values.clone()
    moved[values.argmax()] = 1e9
    kept = values != values.max()
    torch.testing.assert_close(
        standardize(moved)[kept], standardize(values)[kept], atol=1e-6, rtol=0
    )


@pytest.mark.parametrize("method", ["robust", "rank"])
class TestStandardizer:
    def values(self):
        values = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
        return (values * torch.tensor([1.0, 10.0, 0.0]) * 4).round()  # ties, and a constant

    def test_scales_what_it_was_fitted_on_as_the_function_does(self, method):
        values, standardize = self.values(), STANDARDIZATIONS[method]
        result = Standardizer(method).fit(values).transform(values)
        for column, expected in zip(result.T, values.T, strict=True):
            torch.testing.assert_close(column, standardize(expected))
        flat = Standardizer(method).fit(values[:, 0]).transform(values[:, 0])
        assert torch.equal(flat, result[:, 0])

    def test_scales_new_values_the_same_way(self, method):
        standardizer = Standardizer(method).fit(self.values())
        known = standardizer.transform(self.values())
        new = torch.cat([self.values()[:5], 1000 + self.values()])
        torch.testing.assert_close(standardizer.transform(new)[:5], known[:5])
        assert standardizer.transform(new[:0]).shape == (0, 3)

    def test_is_monotone_and_finite_far_outside(self, method):
        standardizer = Standardizer(method).fit(self.values()[:, 0])
        grid = torch.cat(
            [torch.tensor([-1e30]), torch.linspace(-20, 20, 401), torch.tensor([1e30])]
        )
        result = standardizer.transform(grid)
        assert result.isfinite().all()
        assert (result.diff() >= 0).all()
        assert result[0] < -1
        assert result[-1] > 1

    def test_keeps_the_type_of_what_it_transforms(self, method):
        standardizer = Standardizer(method).fit(self.values().double())
        expected = standardizer.transform(self.values().double())
        for dtype in (torch.float16, torch.bfloat16, torch.float32):
            result = standardizer.transform(self.values().to(dtype))
            assert result.dtype == dtype
            torch.testing.assert_close(result.double(), expected, rtol=1e-2, atol=1e-2)

    def test_can_be_fitted_anew(self, method):
        standardizer = Standardizer(method).fit(self.values())
        standardizer.fit(self.values()[:, 0])
        fresh = Standardizer(method).fit(self.values()[:, 0])
        values = torch.linspace(-9, 9, 20)
        assert torch.equal(standardizer.transform(values), fresh.transform(values))

    def test_can_be_pickled(self, method):
        standardizer = Standardizer(method).fit(self.values())
        copied = pickle.loads(pickle.dumps(standardizer))
        assert torch.equal(copied.transform(self.values()), standardizer.transform(self.values()))

    def test_refuses(self, method):
        standardizer = Standardizer(method)
        with pytest.raises(RuntimeError, match=f"method='{method}'.* to be fitted.*call fit"):
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


def test_a_new_value_gets_a_rank_between_those_of_its_neighbours():
    standardizer = Standardizer("rank").fit(torch.tensor([0.0, 4.0, 4.0, 8.0]))
    low, middle, high = rank_standardize(torch.tensor([0.0, 4.0, 4.0, 8.0]))[[0, 1, 3]].tolist()
    result = standardizer.transform(torch.tensor([-9.0, 3.0, 6.0, 99.0]))
    expected = [low, low / 4 + 3 * middle / 4, (middle + high) / 2, high]
    torch.testing.assert_close(result, torch.tensor(expected))


def test_rounding_is_not_blown_up_either_when_it_is_remembered():
    values = 3 + 1e-7 * torch.tensor([0.0, 1.0, -1.0, 2.0])
    assert (Standardizer().fit(values).transform(values) == 0).all()


def test_repr():
    assert repr(Standardizer("rank")) == "Standardizer(method='rank')"


def test_refuses_another_method():
    with pytest.raises(ValueError, match="'method' to be one of 'robust', 'rank'"):
        Standardizer("z")
