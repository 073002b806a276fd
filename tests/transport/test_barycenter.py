"""The laws of a mean, and that no lower value is known."""

import itertools
import sys

import numpy as np
import ot
import pytest
import torch

from jsem_pyg.transport import Factor, gw_barycenter
from jsem_pyg.transport.distance.barycenter import _mean_kernel, _spread

pytestmark = pytest.mark.ci
QUIET = {"progress": False, "epsilon": 2e-3}


def points(num_points, dim=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(num_points, dim, generator=generator, dtype=torch.float64)
    return x - x.mean(0)


def members(*sizes, seed=0):
    return [Factor(points(size, seed=10 * seed + i), "kernel") for i, size in enumerate(sizes)]


def test_the_mean_of_copies_is_that_space():
    x = points(8)
    turn = torch.tensor([[0.6, 0.8], [-0.8, 0.6]], dtype=torch.float64)
    copies = [Factor(each, "kernel") for each in (x, x.flip(0), x @ turn)]
    found = gw_barycenter(copies, 8, **QUIET)
    assert found.converged
    size = float(Factor(x, "kernel").dense().square().mean())
    for plan, copy in zip(found.plans, copies, strict=True):
        assert plan.cost < 1e-4 * size
        matched = copy.dense()[plan.argmax()][:, plan.argmax()]
        torch.testing.assert_close(found.factor.dense(), matched, rtol=0, atol=0.02)


def test_it_has_not_converged_where_a_plan_has_not(monkeypatch, caplog):
    module = sys.modules["jsem_pyg.transport.distance.barycenter"]
    monkeypatch.setattr(module, "_ALIGNMENT_STEPS", 1)
    p = torch.arange(1, 7, dtype=torch.float64)
    found = gw_barycenter(members(8, 8, 8, seed=5), 6, p=p, epsilon=3e-3, tol=1e-2, progress=False)
    assert len(found.history) < 10  # the objective has settled, or risen
    assert not all(plan.converged for plan in found.plans)
    assert not found.converged
    assert [each.name for each in caplog.records] == [module.__name__]  # once, not of alignments
    assert "raise 'epsilon' (0.003)" in caplog.text


def test_it_tells_when_rounds_were_too_few(caplog):
    found = gw_barycenter(members(5, 5), 4, max_iter=1, tol=1e-9, epsilon=0.1, progress=False)
    assert not found.converged
    assert "in 1 rounds. To fix this, raise 'max_iter' (1)" in caplog.text


def test_the_spread_is_that_around_the_mean():
    x, mass = points(9) * torch.tensor([3.0, 1.0]), torch.full((9,), 1 / 9)
    moved = [_spread(Factor(x + shift, "kernel"), mass) for shift in (0, 5)]
    assert moved[0] == pytest.approx(moved[1])
    assert moved[0] == pytest.approx(float(torch.linalg.matrix_norm(x, 2) ** 2 / 9), rel=1e-6)


def test_order_of_points_and_of_members_does_not_matter():
    spaces = members(6, 5)
    weights = torch.tensor([0.7, 0.3])
    first = gw_barycenter(spaces, 5, weights=weights, **QUIET)
    order = torch.randperm(6, generator=torch.Generator().manual_seed(1))
    mixed = [spaces[1], Factor(spaces[0].x[order], "kernel")]
    second = gw_barycenter(mixed, 5, weights=weights[[1, 0]], **QUIET)
    assert first.history[-1] == pytest.approx(second.history[-1], rel=1e-4)
    spectra = [torch.linalg.eigvalsh(each.factor.dense()) for each in (first, second)]
    torch.testing.assert_close(*spectra, rtol=0, atol=1e-3)


def test_the_unit_of_length_does_not_matter():
    spaces = members(5, 6)
    far = [Factor(3 * each.x, "kernel") for each in spaces]
    near, wide = (gw_barycenter(each, 5, **QUIET) for each in (spaces, far))
    assert wide.history[-1] == pytest.approx(81 * near.history[-1], rel=1e-4)
    torch.testing.assert_close(wide.factor.dense(), 9 * near.factor.dense(), rtol=0, atol=0.05)


@pytest.mark.parametrize("unit", [1e-40, 1.0, 1e40])
def test_a_member_at_one_place_halves_the_others(unit):
    x = unit * points(5)
    point = torch.full((5, 2), 0.1 * unit, dtype=torch.float64)
    found = gw_barycenter([x, x.flip(0), point], 5, weights=torch.tensor([1.0, 1.0, 2.0]), **QUIET)
    matched = x[found.plans[0].argmax()]
    torch.testing.assert_close(
        found.factor.dense() / unit**2, 0.5 * matched @ matched.T / unit**2, rtol=0, atol=0.02
    )


def test_a_weight_of_one_is_that_member():
    spaces = members(8, 8)
    found = gw_barycenter(spaces, 8, weights=torch.tensor([0.0, 1.0]), **QUIET)
    index = found.plans[1].argmax()
    expected = spaces[1].dense()[index][:, index]
    torch.testing.assert_close(found.factor.dense(), expected, rtol=0, atol=0.02)


def test_rounds_lower_the_objective():
    found = gw_barycenter(members(7, 6), 9, epsilon=0.03, tol=1e-9, max_iter=5, progress=False)
    assert len(found.history) > 2
    for before, after in itertools.pairwise(found.history):
        assert after <= before + 1e-4 * abs(before)


def test_pot_finds_nothing_lower():
    """The weighted sum of squared costs of POT's barycentre, with the plans that it ends with."""
    spaces = members(6, 7, 5)
    costs = [each.dense().numpy() for each in spaces]
    masses = [np.full(len(each), 1 / len(each)) for each in costs]
    p, weights = np.full(5, 1 / 5), [0.5, 0.3, 0.2]
    found = gw_barycenter(spaces, 5, weights=torch.tensor(weights), **QUIET)
    own = sum(w * plan.cost for w, plan in zip(weights, found.plans, strict=True))
    best = np.inf
    for start in range(3):
        matrix = ot.gromov.gromov_barycenters(
            5, costs, masses, p, weights, "square_loss", max_iter=100, tol=1e-9, random_state=start
        )
        value = sum(
            w * ot.gromov.gromov_wasserstein2(matrix, c, p, q)
            for w, c, q in zip(weights, costs, masses, strict=True)
        )
        best = min(best, value)
    assert own < best * (1 + 1e-3)


def test_squared_distances_have_a_mean_of_points():
    x = points(9)
    found = gw_barycenter([x + 5, 2 * x.flip(0)], 9, cost=lambda each: Factor(each), **QUIET)
    assert found.factor.kind == "sqdist"
    index = found.plans[0].argmax()
    middle = 2.5**0.5 * torch.cdist(x[index], x[index])
    torch.testing.assert_close(found.factor.dense().sqrt(), middle, rtol=0, atol=0.05)


def test_the_factor_is_the_mean_of_kernels():
    generator = torch.Generator().manual_seed(0)
    p = torch.tensor([0.2, 0.5, 0.3, 0.0], dtype=torch.float64)
    parts = []
    for weight, signs in ((0.4, [1.0, -1.0]), (0.6, [1.0, 1.0, -1.0])):
        x = torch.randn(4, len(signs), generator=generator, dtype=torch.float64)
        x[3] = 0
        parts.append((weight, x, torch.tensor(signs, dtype=torch.float64)))
    expected = sum(weight * (x * signs) @ x.T for weight, x, signs in parts)
    torch.testing.assert_close(_mean_kernel(parts, p, None).dense(), expected)
    cut = _mean_kernel(parts, p, 1)
    assert cut.rank == 1
    root = p.sqrt()[:, None]
    lost = torch.linalg.matrix_norm(root * (cut.dense() - expected) * root.T, 2)
    rest = torch.linalg.eigvalsh(root * expected * root.T).abs().sort().values[-2]
    torch.testing.assert_close(lost, rest)


def test_awkward_sizes_and_masses():
    spaces = members(6, 5)
    p = torch.tensor([0.3, 0.3, 0.4, 0.0])
    quick = {"progress": False, "epsilon": 0.05}
    assert gw_barycenter(spaces, 4, p=p.double(), **quick).factor.num_points == 4
    many = gw_barycenter(spaces, 9, rank=2, **quick)
    assert (many.factor.num_points, many.factor.rank) == (9, 2)
    single = gw_barycenter([Factor(points(1), "kernel")] * 2, 1, progress=False)
    assert float(single.factor.dense()) == pytest.approx(0)
    floats = [Factor(each.x.float(), "kernel") for each in spaces]
    found = gw_barycenter(floats, 5, masses=[None, torch.full((5,), 0.2)], **quick)
    assert found.factor.x.dtype == torch.float32
    assert repr(found).startswith("Barycenter(Factor(kernel, num_points=5")


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"sources": []}, TypeError, "Expected 'sources' to be a list"),
        ({"sources": torch.ones(3, 2)}, TypeError, "Expected 'sources' to be a list"),
        ({"size": 0}, ValueError, "Expected 'size'"),
        (
            {"weights": torch.tensor([1.5, -0.5])},
            ValueError,
            "Expected 'weights' to be non-negative",
        ),
        ({"weights": torch.ones(3) / 3}, ValueError, "Expected 'weights' to have shape"),
        ({"masses": [None]}, ValueError, "Expected 'masses' to be a list of 2"),
        ({"epsilon": -1.0}, ValueError, "Expected 'epsilon'"),
        ({"rank": 0}, ValueError, "Expected 'rank'"),
    ],
)
def test_bad_input_is_refused(changed, error, message):
    given = {"sources": members(4, 4), "size": 3, **changed}
    with pytest.raises(error, match=message):
        gw_barycenter(**given)


def test_costs_of_different_kinds_have_no_mean():
    with pytest.raises(ValueError, match="one kind of cost"):
        gw_barycenter([Factor(points(3)), Factor(points(3), "kernel")], 3)
