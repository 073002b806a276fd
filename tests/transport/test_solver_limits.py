"""What the solver refuses, what it says, and what it is known to do wrong."""

import logging

import pytest
import torch
from torch_geometric.data import Data
from transport.problems import align, gw_cost, masses, permutation, points, rotation

from jsem_pyg.transport import Factor, FeatureCost

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
        ({"q": torch.tensor([1.0, 1e-12, 1, 1, 1, 1])}, "'q' to be zero, or at least 1e-09 of its"),
        ({"source": 1e-8 * X, "target": Y}, "'source' to have a largest cost from 1e-12 to 1e.12"),
        ({"source": X, "target": 1e8 * Y}, "'target' to have a largest cost from 1e-12 to 1e.12"),
        ({"epsilon": 1e-15, "absolute": True}, "'epsilon' to be at least"),
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


@pytest.mark.parametrize("epsilon", [1e-3])
def test_cold_plans_still_have_their_rows(epsilon):
    """An absolute temperature is reached whatever happens; the plan must stay one."""
    first, second = points(30, 4, 0, torch.float32), points(25, 3, 1, torch.float32)
    plan = align(first, second, starts=["axes"], epsilon=epsilon, absolute=True)
    rows, columns = plan.marginals()
    torch.testing.assert_close(rows, torch.full((30,), 1 / 30).double(), rtol=1e-3, atol=0)
    assert plan.converged == (float((columns - 1 / 25).abs().sum()) < 1e-2)


@pytest.mark.parametrize("seed", [7])
def test_copies_of_points_whose_axes_are_nearly_alike_are_found(seed):
    x, order = points(700, 3, seed, torch.float32), permutation(700, seed)
    plan = align(x, (x @ rotation(3, seed, torch.float32))[order])
    assert torch.equal(order[plan.argmax()], torch.arange(700))


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


@pytest.mark.parametrize("sizes", [(1, 2), (2, 2)])
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


@pytest.mark.parametrize("sizes", [(1, 4), (1, 1), (20, 25)])
@pytest.mark.parametrize("mass", [0.3, 0.7])
def test_partial_plans_send_their_mass_and_converged_plans_keep_their_bounds(sizes, mass):
    n, k = sizes
    bound = 1 / min(n, k)
    for seed in range(2):
        plan = align(points(n, 3, seed), points(k, 3, seed + 9), marginals="partial", mass=mass)
        rows, columns = plan.marginals()
        assert float(rows.sum()) == pytest.approx(mass, abs=1e-3)
        assert max(float(rows.max()), float(columns.max())) < bound + 1e-3


@pytest.mark.parametrize("unit", [1e4, 1e-6])
@pytest.mark.parametrize("absolute", [False, True])
def test_partial_plans_do_not_depend_on_the_unit_of_masses(unit, absolute):
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
