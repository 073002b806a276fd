"""Plans that leave points alone, against linear programs, differences, and planted strangers."""

import pytest
import torch
from scipy.optimize import linear_sum_assignment

from jsem_pyg.transport import FeatureCost, Plan, gromov_wasserstein, gw_distance

COST = FeatureCost()


def arms(count, seed=0):
    """A spiral band, whose outer end is unlike the rest."""
    generator = torch.Generator().manual_seed(seed)
    t = 9 * torch.rand(count, generator=generator).double()
    return torch.stack([t.cos() * t, t.sin() * t, 2 * torch.rand(count, generator=generator)], 1)


def planted(count, kept, lost=0.0, seed=0):
    """Two sides of which one lacks the outer end, the other a random part; partners, share."""
    x, generator = arms(count, seed), torch.Generator().manual_seed(seed + 100)
    inner = x[:, :2].norm(dim=1).argsort()[: int(kept * count)]
    has = torch.rand(count, generator=generator) >= lost
    turn, _ = torch.linalg.qr(torch.randn(3, 3, generator=generator).double())
    order = torch.randperm(len(inner), generator=generator)
    partner = torch.full((count,), -1)
    partner[inner[order]] = torch.arange(len(inner))
    share = int((partner[has] >= 0).sum()) / min(int(has.sum()), len(inner))
    return x[has], x[inner[order]] @ turn, partner[has], share


def align(x, y, **options):
    return gromov_wasserstein(x, y, cost=COST, progress=False, **options)


def stranger_f1(found, partner):
    right = int(((found < 0) & (partner < 0)).sum())
    return 2 * right / max(int((found < 0).sum()) + int((partner < 0).sum()), 1)


@pytest.mark.parametrize(
    ("count", "kept", "lost"), [(90, 0.8, 0.0), (300, 0.8, 0.0), (300, 0.75, 0.2)]
)
def test_strangers_stay_alone(count, kept, lost):
    x, y, partner, share = planted(count, kept, lost)
    plan = align(x, y, mass=share, epsilon=0.002)
    sent, received = plan.marginals()
    assert plan.converged
    assert float(sent.sum()) == pytest.approx(share, abs=2e-3)
    least = 1 / min(len(x), len(y))
    assert float(sent.max()) < 1.01 * least
    assert float(received.max()) < 1.01 * least
    found = plan.argmax()
    assert stranger_f1(found, partner) > 0.9
    assert ((found == partner)[partner >= 0]).double().mean() > 0.7
    confidence, tenth = plan.confidence, len(y) // 10
    near = torch.cdist(y, y).argsort(1)[partner, :tenth]
    is_near = (near == found[:, None]).any(1) & (partner >= 0)
    assert float(confidence.mean()) == pytest.approx(float(is_near.double().mean()), abs=0.12)
    assert confidence[partner < 0].mean() < 0.1 * max(float(confidence[partner >= 0].mean()), 0.1)
    if lost == 0:  # who is lost at random has neighbours who are not
        turned = plan.transposed().argmax()
        assert int((turned < 0).sum()) <= 0.02 * count


def test_all_mass_of_equal_sides_is_the_balanced_plan():
    x = arms(60)
    y = (x + 0.1 * torch.randn(60, 3, generator=torch.Generator().manual_seed(0)))[:, [1, 2, 0]]
    options = {"epsilon": 1.0, "absolute": True, "tol": 1e-9, "max_iter": 500}
    balanced = align(x, y, **options)
    torch.testing.assert_close(
        align(x, y, mass=1.0, **options).dense(), balanced.dense(), atol=1e-6, rtol=0
    )


def test_a_sample_is_mapped_into_an_atlas():
    y, x, partner, _ = planted(200, 0.7)
    plan = align(x, y, mass="source", epsilon=0.002)
    sent, received = plan.marginals()
    torch.testing.assert_close(sent, torch.full_like(sent, 1 / len(x)), atol=1e-6, rtol=0)
    assert received.max() > 1.1 / len(x)
    outer = torch.full((len(y),), True)
    outer[plan.argmax()] = False
    assert (outer == (partner < 0)).double().mean() > 0.75


def test_neither_unit_nor_offset_order_or_a_constant_column_matter():
    x, y, _, share = planted(120, 0.75, 0.15, seed=7)
    plan = align(x, y, mass=share)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    back = torch.empty_like(order).scatter_(0, order, torch.arange(len(x)))
    others = {
        "unit and offset": align(1000 * x + 1000, 1000 * y - 500, mass=share).argmax(),
        "order": align(x[order], y, mass=share).argmax()[back],
        "constant": align(torch.cat([x, torch.full_like(x[:, :1], 7)], 1), y, mass=share).argmax(),
        "turned round": align(y, x, mass=share).transposed().argmax(),
    }
    for name, found in others.items():
        assert (found == plan.argmax()).double().mean() > 0.95, name


def test_features_alone_are_partial_linear_assignment():
    """Against the assignment with as many dummies as may stay alone."""
    generator = torch.Generator().manual_seed(1)
    first, second, x, y = (torch.randn(n, 2, generator=generator).double() for n in (9, 7, 9, 7))
    count = 5
    table = torch.zeros(16 - count, 16 - count).double()
    table[:9, :7] = torch.cdist(first, second).square()
    table[9:, 7:] = 1e6
    row, column = linear_sum_assignment(table.numpy())
    chosen = [(i, j) for i, j in zip(row, column, strict=True) if i < 9 and j < 7]
    options = {"alpha": 1e-6, "epsilon": 1e-3, "absolute": True}
    plan = align(x, y, features=(first, second), mass=count / 7, **options)
    assert sorted(chosen) == [(i, j) for i, j in enumerate(plan.argmax().tolist()) if j >= 0]


@pytest.mark.parametrize("mass", [0.7, 1.0, "source"])
def test_gradients_are_those_of_differences(mass):
    x, y, _, _ = planted(24, 0.75)
    options = {"epsilon": 3.0, "absolute": True, "tol": 1e-7, "max_iter": 500, "mass": mass}
    options["starts"] = align(x, y, **options)
    direction = torch.randn(x.shape, generator=torch.Generator().manual_seed(0)).double()

    def value(x):
        return gw_distance(x, y, cost=COST, progress=False, **options)

    leaf = x.clone().requires_grad_()
    value(leaf).backward()
    numeric = (value(x + 1e-4 * direction) - value(x - 1e-4 * direction)) / 2e-4
    assert float((leaf.grad * direction).sum()) == pytest.approx(float(numeric), rel=5e-3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mass": 0.0}, r"'mass' to lie in \(0, 1\]"),
        ({"mass": 1.5}, r"'mass' to lie in \(0, 1\]"),
        ({"mass": 1.0, "epsilon": 1e-13}, "'epsilon' to be at least"),
        ({"mass": "all"}, "'mass' to be one of 'source'"),
    ],
)
def test_what_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        align(arms(6), arms(5), **options)


@pytest.mark.parametrize("mass", [0.8, 1.0])
@pytest.mark.parametrize("is_turned", [False, True])
def test_known_pairs_decide_between_an_arc_and_its_mirror_image(mass, is_turned):
    t = torch.linspace(-1, 1, 60).double()
    arc, inner = torch.stack([t, t.square()], 1), (t.abs() < 0.8).nonzero()[:, 0]
    partner = torch.full((60,), -1)
    partner[inner] = torch.arange(len(inner)).flip(0) if is_turned else torch.arange(len(inner))
    known = inner[[3, 16]]
    pairs = torch.stack([known, partner[known]])
    plan = align(arc, arc[inner], mass=mass, known_pairs=pairs, epsilon=0.002)
    assert plan.converged
    assert (plan.argmax() == partner).double().mean() > 0.95
    sent = plan.marginals()[0][known]
    torch.testing.assert_close(sent, torch.full_like(sent, 1 / len(inner)), atol=1e-6, rtol=0)


def test_a_plan_goes_on_at_another_mass():
    x, y, *_ = planted(150, 0.8)
    plan = align(x, y, mass=1.0)
    assert isinstance(plan, Plan)
    again = align(x, y, mass=0.9, starts=plan)
    assert again.converged
    assert again.cost < plan.cost
    assert again.history[-1].epsilon == pytest.approx(again.epsilon)


@pytest.mark.parametrize("max_iter", [1, 20])
def test_a_cold_plan_sends_the_mass_that_is_asked_for_converged_or_not(max_iter):
    x, y, _, _ = planted(500, 0.8)
    noisy = y + 0.1 * torch.randn(y.shape, generator=torch.Generator().manual_seed(1)).double()
    plan = align(x, noisy, mass=0.8, epsilon=5e-4, max_iter=max_iter)
    for sent in plan.marginals():
        assert float(sent.sum()) == pytest.approx(0.8, abs=1e-3)
