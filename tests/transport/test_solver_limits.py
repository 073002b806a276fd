"""What the solver refuses, what it says, and what it is known to do wrong."""

import logging

import pytest
import torch
from night import night
from torch_geometric.data import Data
from transport.problems import align, gw_cost, masses, permutation, points, rotation

from jsem_pyg.transport import Factor, FeatureCost, gromov_wasserstein, gw_distance
from jsem_pyg.transport.problem.objective import _less_mean

X, Y = points(8, 3, 0, torch.float32), points(6, 2, 1, torch.float32)
NOTHING = torch.zeros(8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source": X / 0}, "'source' to be finite"),
        ({"target": Y / 0}, "'target' to be finite"),
        ({"target": Y[:0]}, r"'target' to have shape \[N, D\], not empty"),
        ({"target": Factor(Y)}, "costs of one kind .got 'kernel' and 'sqdist'"),
        ({"target": Y.double()}, "one type on one device"),
        ({"target": Data(num_nodes=3)}, "'target' to have edges"),
        ({"p": NOTHING}, "'p' to have mass somewhere"),
        ({"q": torch.tensor([1.5, -0.5, 0, 0, 0, 0])}, "'q' to be non-negative .* of -0.5"),
        ({"q": masses(8)}, r"'q' to have shape \[6\]"),
        ({"q": masses(6) / 0}, "'q' to be finite"),
        ({"epsilon": 0.0}, "'epsilon' to be positive"),
        ({"alpha": 1.0}, "'alpha' to lie in"),
        ({"marginals": "fixed"}, "'marginals' to be one of 'balanced', 'semirelaxed'"),
        ({"rho": -1.0, "marginals": "unbalanced"}, "'rho' to be non-negative"),
        ({"known_pairs": torch.tensor([[0], [6]])}, r"'known_pairs' to hold .* in \[0, 6\)"),
        ({"known_pairs": torch.tensor([0, 1])}, r"'known_pairs' to be \[2, M\]"),
        ({"features": (X, Y)}, r"'features' to be \[8, d\] and \[6, d\]"),
        ({"features": (X, X[:6] / 0)}, "'features' to be finite"),
        ({"starts": ["heat", "warm"]}, "'starts' to be some of 'heat', .* .got 'warm'"),
        ({"starts": align(X, X, starts=["axes"])}, "'starts' to be a plan of 8 x 6 points"),
        ({"backend": "cuda"}, "'backend' to be"),
        ({"coarse": 0}, "'coarse' to be a positive integer"),
    ],
)
def test_what_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        align(**{"source": X, "target": Y, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source": "digits"}, "'source' to be a Factor, a Data, or a tensor"),
        ({"target": [[0.0]]}, "'target' to be a Factor, a Data, or a tensor"),
        ({"cost": "heat"}, "'cost' to be called with each side"),
        ({"cost": lambda side: side}, "'cost' to make a Factor .got Tensor"),
        ({"starts": "heat"}, "'starts' to be a Plan, or some of"),
        ({"starts": []}, "'starts' to be a Plan, or some of"),
        ({"features": X}, "'features' to be two tensors"),
    ],
)
def test_what_is_of_the_wrong_type(change, message):
    with pytest.raises(TypeError, match=message):
        align(**{"source": X, "target": Y, **change})


def test_too_cold_is_refused_with_the_smallest_that_is_not():
    with pytest.raises(ValueError, match="'epsilon' to be at least") as caught:
        align(X, Y, epsilon=1e-15, absolute=True)
    smallest = float(str(caught.value).split("at least ")[1].split()[0])
    with pytest.raises(ValueError, match="'epsilon' to be at least"):
        align(X, Y, epsilon=0.9 * smallest, absolute=True)
    align(X, Y, epsilon=1.1 * smallest, absolute=True, starts=["axes"], max_iter=1)


def test_the_independent_plan_alone_is_no_start_for_centred_kernels():
    square = torch.tensor([[-1.0, 0], [1, 0], [0, -2], [0, 2]])
    with pytest.raises(ValueError, match="'starts' to have more than 'zero'"):
        align(Factor(square, "kernel"), Factor(square, "kernel"), starts=["zero"])
    align(Factor(square + 1, "kernel"), Factor(square + 1, "kernel"), starts=["zero"])


def test_a_point_at_the_origin_has_no_direction_and_is_no_trouble():
    x = torch.cat([points(30, 5, 2), torch.zeros(1, 5).double()])
    order = permutation(31, 3)
    plan = align(FeatureCost("kernel")(x), FeatureCost("kernel")(x[order]), starts=["heat"])
    assert torch.equal(order[plan.argmax()], torch.arange(31))


def test_it_says_when_it_has_not_converged_and_what_to_change(caplog):
    with caplog.at_level(logging.WARNING):
        plan = align(X, Y, tol=1e-12, max_iter=1, epsilon=0.1)
    assert not plan.converged
    assert "has not converged" in caplog.text
    assert "raise 'max_iter' (1) or 'epsilon' (0.1)." in caplog.text
    align(X, Y, tol=1e-12, max_iter=1, epsilon=0.1, marginals="partial", mass=0.3)
    assert "raise 'epsilon' (0.1)." in caplog.text  # more steps would hardly help


def test_it_is_silent_when_it_has(caplog):
    with caplog.at_level(logging.WARNING):
        assert align(X, X, epsilon=0.3, max_iter=200).converged
    assert not caplog.text


def test_the_search_for_a_start_gives_no_warning(caplog):
    """The balanced plan that an unbalanced one starts from may miss its masses in so few steps."""
    x, y = points(8, 3, 2, torch.float32), points(6, 2, 3, torch.float32)
    options = {"epsilon": 0.003, "max_iter": 5}
    with caplog.at_level(logging.WARNING):
        plan = align(x, y, marginals="unbalanced", rho=0.1, **options)
    assert plan.converged
    assert not caplog.text


@pytest.mark.parametrize("marginals", ["semirelaxed", "unbalanced", "partial"])
@pytest.mark.parametrize("kind", ["kernel", "sqdist"])
def test_a_side_whose_points_are_all_alike_is_aligned(kind, marginals):
    alike = Factor(0.1 * torch.ones(7, 2).double(), kind)
    other = Factor(points(5, 3, 1), kind)
    plan = align(alike, other, marginals=marginals, rho=5.0, mass=0.5, epsilon=0.3)
    assert plan.cost == pytest.approx(gw_cost(alike, other, plan.dense()), rel=1e-6)


@pytest.mark.parametrize("epsilon", [*night(1e-3), 1e-7])
def test_cold_plans_still_have_their_rows(epsilon):
    """An absolute temperature is reached whatever happens; the plan must stay one."""
    first, second = points(30, 4, 0, torch.float32), points(25, 3, 1, torch.float32)
    plan = align(first, second, starts=["axes"], epsilon=epsilon, absolute=True)
    rows, columns = plan.marginals()
    torch.testing.assert_close(rows, torch.full((30,), 1 / 30).double(), rtol=1e-3, atol=0)
    assert plan.converged == (float((columns - 1 / 25).abs().sum()) < 1e-2)


@pytest.mark.parametrize("seed", [7, 9])
def test_copies_of_points_whose_axes_are_nearly_alike_are_found(seed):
    x, order = points(700, 3, seed, torch.float32), permutation(700, seed)
    plan = align(x, (x @ rotation(3, seed, torch.float32))[order])
    assert torch.equal(order[plan.argmax()], torch.arange(700))


@pytest.mark.slow
def test_more_starts_are_not_worse_than_one_of_them():
    generator = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    centres = normal(8, 12)
    latent = centres[torch.randint(8, (300,), generator=generator)] + 0.5 * normal(300, 12)
    first, second = (latent @ normal(12, 96) / 96**0.5 + 0.02 * normal(300, 96) for _ in range(2))
    second = second[permutation(300, 9)]
    one, all_ = (align(first, second, starts=starts) for starts in (["heat"], None))
    assert all_.cost <= 1.01 * one.cost


def test_an_unbalanced_plan_without_mass_is_refused_with_advice_that_works():
    x = points(30, 3, 0, torch.float64) + 10  # inner products far from zero
    options = {"marginals": "unbalanced", "cost": FeatureCost("kernel")}
    with pytest.raises(
        ValueError, match=r"mass of \S+\)\. .* 'rho', such as to 0\.02; .*center=True"
    ):
        align(x, x[:24], rho=2e-3, epsilon=0.02, absolute=True, **options)
    centred = options | {"cost": FeatureCost("kernel", center=True)}
    for each in (centred, options | {"max_iter": 100}):
        plan = align(x, x[:24], rho=10.0, **each)
        assert plan.converged
        assert float(plan.marginals()[0].sum()) == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("sizes", [(1, 2), (2, 1), (1, 4), (2, 2)])
def test_converged_partial_plans_of_few_points_stay_where_they_are(sizes):
    n, k = sizes
    for seed in range(3):
        sides = points(n, 3, seed), points(k, 3, seed + 9)
        options = {"marginals": "partial", "mass": 1.0}
        plan = align(*sides, **options)
        assert float(plan.marginals()[0].sum()) == pytest.approx(1, abs=1e-3)
        if plan.converged:
            again = align(*sides, **options, starts=plan)
            torch.testing.assert_close(again.dense(), plan.dense(), rtol=0, atol=0.05)


@pytest.mark.parametrize("sizes", [(1, 4), (1, 1), (2, 7), (20, 25)])
@pytest.mark.parametrize("mass", [0.3, 0.7])
def test_partial_plans_send_their_mass_and_converged_plans_keep_their_bounds(sizes, mass):
    n, k = sizes
    bound = 1 / min(n, k)
    for seed in range(2):
        plan = align(points(n, 3, seed), points(k, 3, seed + 9), marginals="partial", mass=mass)
        rows, columns = plan.marginals()
        assert float(rows.sum()) == pytest.approx(mass, abs=1e-3)
        assert max(float(rows.max()), float(columns.max())) < bound + 1e-3


def test_partial_plans_of_small_mass_settle_when_warm():
    """As the warning advises."""
    for seed in range(2):
        x, y = points(30, 3, seed), points(40, 3, seed + 9)
        assert align(x, y, marginals="partial", mass=0.3, epsilon=0.1).converged


@pytest.mark.parametrize("unit", [1e4, 1e-30])
@pytest.mark.parametrize("absolute", [False, True])
def test_partial_plans_do_not_depend_on_the_unit_of_masses(unit, absolute):
    """Masses of 1e-3 led to a flat plan, of 1e-30 to one without mass, with `converged=True`."""
    x, y, phi, psi = points(12, 2), points(10, 2, 1), points(12, 2, 2), points(10, 2, 3)
    p, q = torch.linspace(0.02, 0.2, 12).double(), torch.linspace(0.2, 0.01, 10).double()
    plans = []
    for size in (1.0, unit):
        plan = align(
            x, y, p=p * size, q=q * size, mass=0.7 * size, marginals="partial", absolute=absolute,
            epsilon=0.2 * (size if absolute else 1), features=(phi * size**0.5, psi * size**0.5),
        )  # fmt: skip
        assert plan.converged
        plans.append((plan.dense() / size, plan.cost / size**2, plan.epsilon / size))
        after = align(
            x, y, p=p * size, q=q * size, mass=0.7 * size, marginals="partial", epsilon=0.2
        )
        plans[-1] += (after.dense() / size, after.confidence)
    torch.testing.assert_close(plans[1], plans[0], rtol=1e-6, atol=1e-9)


def test_bounds_of_partial_plans_beyond_the_sums_of_the_kernels_are_refused():
    x, y, one, all_of_y = points(1, 2), points(3, 2), torch.ones(1), torch.ones(3) / 3
    for p, q in ((one * 1e30, all_of_y * 1e30), (one * 1e10, all_of_y * 1e-20)):
        with pytest.raises(ValueError, match="'p' and 'q' with sums of at most 1.15e\\+18"):
            align(x, y, p=p, q=q, mass=1e-21, marginals="partial")


@pytest.mark.parametrize("kind", ["kernel", "sqdist"])
@pytest.mark.parametrize("marginals", ["semirelaxed", "partial"])
def test_a_side_without_extent_takes_the_unit_of_the_other(kind, marginals):
    """In small units of float32 the plan was NaN."""
    plans = []
    for unit in (1.0, 2.0**-80):
        sides = Factor(points(3, 2).float() * unit, kind), Factor(torch.zeros(1, 2), kind)
        options = {"epsilon": unit**4, "absolute": True, "marginals": marginals}
        plans.append(align(*sides, **options).dense())
    assert float(plans[0].sum()) == pytest.approx(1, abs=1e-3)
    torch.testing.assert_close(plans[1], plans[0])


@pytest.mark.parametrize("backend", ["auto", "torch"])
@pytest.mark.parametrize("marginals", ["semirelaxed", "unbalanced"])
def test_points_at_one_place_far_from_zero_have_the_same_plan_in_any_unit(marginals, backend):
    """Their plan was NaN in float32, with `converged=True`."""
    plans = []
    for unit in (1.0, 2.0**-40):
        sides = (
            Factor(torch.full((1, 2), unit), "kernel"),
            Factor(torch.full((2, 2), 2 * unit), "kernel"),
        )
        options = {"epsilon": unit**4, "rho": unit**4, "absolute": True, "marginals": marginals}
        plans.append(align(*sides, **options, backend=backend).dense())
    assert float(plans[0].sum()) > 0.05
    torch.testing.assert_close(plans[1], plans[0])


@pytest.mark.parametrize("backend", ["numba", "torch"])
@pytest.mark.parametrize("marginals", ["balanced", "semirelaxed", "unbalanced"])
def test_a_temperature_that_float32_cannot_hold_spreads_every_mass(marginals, backend):
    """The plan was NaN, and its cost zero."""
    x = points(6, 2, 0, torch.float32)
    options = {"epsilon": 1e39, "rho": 1e39, "absolute": True, "marginals": marginals}
    plan = align(x, x[:5], **options, backend=backend)
    torch.testing.assert_close(plan.dense(), torch.full((6, 5), 1 / 30), rtol=1e-3, atol=0)


@pytest.mark.parametrize("marginals", ["balanced", "semirelaxed"])
def test_points_whose_squared_costs_overflow_are_refused(marginals):
    x = torch.randn(20, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    plan = gromov_wasserstein(x * 1e73, x * 1e73, marginals=marginals)
    assert 0 <= plan.cost < float("inf")
    for source, target, name in ((x * 1e100, x, "source"), (x, x * 1e77, "target")):
        with pytest.raises(ValueError, match=f"'{name}' to lead to coordinates of at most 1e\\+74"):
            gromov_wasserstein(source, target, marginals=marginals)


@pytest.mark.parametrize("kind", ["kernel", "sqdist"])
@pytest.mark.parametrize("marginals", ["balanced", "semirelaxed", "partial"])
@pytest.mark.parametrize("unit", [2.0**66, 2.0**-66])
def test_squares_beyond_single_precision_leave_the_cost_right(kind, marginals, unit):
    """It was minus infinity, or that of points without squares, with `converged=True`."""
    options = {"marginals": marginals, "mass": 0.7, "epsilon": 0.3}
    sides, scaled = ([Factor(each * s, kind) for each in (X, Y)] for s in (1.0, unit))
    plan, other = align(*sides, **options), align(*scaled, **options)
    assert torch.equal(other.dense(), plan.dense())
    assert other.cost == pytest.approx(plan.cost * unit**4, rel=1e-6)
    assert other.epsilon == pytest.approx(plan.epsilon * unit**4, rel=1e-6)


@pytest.mark.parametrize("marginals", ["balanced", "semirelaxed", "unbalanced", "partial"])
def test_points_whose_squared_costs_underflow_are_refused(marginals):
    """The independent plan was returned, with a cost of zero and `converged=True`."""
    x, nothing = points(8, 3), torch.zeros(6, 2).double()
    for source, target, name in ((x * 1e-90, x, "source"), (x, x * 1e-200, "target")):
        with pytest.raises(ValueError, match=f"'{name}' to lead to coordinates of at least 1e-74"):
            align(source, target, marginals=marginals)
    assert align(x, nothing, marginals="balanced").cost > 0


@pytest.mark.parametrize("unit", [1.0, 1e30])
def test_kernels_of_points_at_one_place_may_be_large(unit):
    """Products of means were beyond float32, and the plan was NaN."""
    x, y = (torch.full((size, 2), unit) for size in (1, 3))
    plan = align(Factor(x, "kernel"), Factor(y, "kernel"))
    assert plan.converged
    torch.testing.assert_close(plan.dense(), torch.full((1, 3), 1 / 3))


def test_copies_of_one_point_are_at_no_distance():
    """The mean of equal numbers is not that number, and its rounding was their cost."""
    x = torch.full((7, 2), 1.1e17, dtype=torch.float64)
    assert align(Factor(x), Factor(x[:1])).cost == 0


@pytest.mark.parametrize("place", [0, 5])
def test_a_point_far_away_costs_the_others_no_digits_wherever_it_stands(place):
    x, mass = points(2000, 3, 0), masses(2000, 1)
    x[place] = 1e6
    found = _less_mean(x.float(), mass.float()).double()
    expected = x - mass @ x / mass.sum()
    torch.testing.assert_close(found[place + 1 :], expected[place + 1 :], rtol=0, atol=0.01)


@pytest.mark.parametrize("marginals", ["balanced", "semirelaxed", "unbalanced"])
@pytest.mark.parametrize("is_fused", [False, True])
def test_a_side_at_one_place_leaves_the_temperature_in_the_unit_of_the_costs(marginals, is_fused):
    """It was a number without one, so that distances depended on the unit."""
    x, y = points(5, 3), torch.ones(4, 2).double()
    features = points(5, 2, 1), points(4, 2, 2)
    for source in (x, torch.ones_like(x)) if is_fused else (x,):
        found = []
        for unit in (1.0, 2.0**-20):
            given = [each * unit**2 for each in features] if is_fused else None
            options = {"marginals": marginals, "features": given, "epsilon": 0.3, "rho": 5.0}
            sides = Factor(unit * source), Factor(unit * y)
            found.append(float(gw_distance(*sides, **options)) / unit**4)
        assert found[1] == pytest.approx(found[0], rel=1e-9)
