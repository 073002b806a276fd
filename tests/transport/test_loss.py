"""The loss: one function while it is followed, which descent brings down."""

import pytest
import torch

from jsem_pyg.transport import Factor, GromovWassersteinLoss, gw_distance
from jsem_pyg.transport.factored.solver import Task

pytestmark = pytest.mark.ci


def points(num_points=12, dim=2, seed=0):
    return torch.randn(num_points, dim, generator=torch.Generator().manual_seed(seed)).double()


def kernel(x):
    return Factor(x, "kernel")


def interrupt(*args, **kwargs):
    raise KeyboardInterrupt


def test_the_first_value_is_the_distance():
    x, y = points(), points(9, 3, 1)
    options = {"epsilon": 0.1, "cost": kernel}
    expected = gw_distance(x, y, **options, progress=False)
    torch.testing.assert_close(GromovWassersteinLoss(**options)(x, y), expected)


@pytest.mark.parametrize("marginals", ["balanced", "semirelaxed"])
def test_it_stays_one_function(marginals):
    """Gradients along a path add up to the difference of its ends, as the shape shrinks."""
    x, y = points(), points(10, 2, 1)
    loss = GromovWassersteinLoss(kernel, 0.2, marginals=marginals, rho=0.5, tol=1e-9, max_iter=1000)
    sizes = torch.linspace(1, 0.8, 9).double()
    values, slopes = [], []
    for size in sizes:
        size = size.clone().requires_grad_()
        value = loss(x * size, y)
        slopes.append(torch.autograd.grad(value, size)[0])
        values.append(value.detach())
    steps = torch.full((8,), float(sizes[1] - sizes[0])).double()
    middle = (torch.stack(slopes)[1:] + torch.stack(slopes)[:-1]) / 2
    difference = values[-1] - values[0]
    torch.testing.assert_close((middle * steps).sum(), difference, rtol=2e-3, atol=0)
    assert loss.plan.epsilon > 0


def test_descent_finds_the_shape():
    target = points(8, 2, 3)
    x = torch.nn.Parameter(points(8, 2, 4))
    loss = GromovWassersteinLoss(epsilon=0.005)
    optimizer = torch.optim.Adam([x], lr=0.05)
    values = []
    for _ in range(120):
        optimizer.zero_grad()
        value = loss(x, target)
        value.backward()
        optimizer.step()
        values.append(float(value.detach()))
    matched = loss.plan.argmax()
    error = (torch.pdist(x.detach()) - torch.pdist(target[matched])).abs().max()
    assert matched.unique().numel() == 8
    assert float(error) < 0.2
    assert values[-1] < values[0]


def test_another_pair_of_the_same_size_is_noticed():
    """Not the optimum of the pair before is followed, and not its temperature."""
    loss = GromovWassersteinLoss()
    for seed in range(3):
        x, y = points(15, 2, seed), points(15, 2, 100 + seed)
        expected = gw_distance(x, y, progress=False)
        torch.testing.assert_close(loss(x, y), expected)
    other = x[torch.randperm(15, generator=torch.Generator().manual_seed(0))]
    torch.testing.assert_close(loss(other, y), expected, rtol=1e-3, atol=0)
    turned = other @ torch.tensor([[0.0, 1.0], [-1.0, 0.0]]).double()
    before = loss.plan
    loss(turned, y)  # the same costs
    assert loss.plan.epsilon == pytest.approx(before.epsilon, rel=1e-9)
    p = torch.full((15,), 1 / 9).double()
    p[:6] = 0
    expected = gw_distance(turned, y, p=p, progress=False)
    torch.testing.assert_close(loss(turned, y, p=p), expected)


@pytest.mark.parametrize("unit", [1e-70, 1e70])
def test_other_features_are_noticed_in_any_unit(unit):
    x, y, phi, psi = (points(8, 2, seed) for seed in range(4))
    sides, phi, psi = (unit * x, unit * y), 3 * unit**2 * phi, 3 * unit**2 * psi
    loss = GromovWassersteinLoss(alpha=0.3)
    loss(*sides, features=(phi, psi))
    other = loss(*sides, features=(phi.flip(0), psi))
    loss.forget()
    assert float(other) == float(loss(*sides, features=(phi.flip(0), psi)))
    temperature = loss.plan.epsilon
    loss(*sides, features=(1.1 * phi.flip(0), psi))
    assert loss.plan.epsilon == pytest.approx(temperature, rel=1e-9)


def test_other_sizes_and_forgetting_begin_anew():
    loss = GromovWassersteinLoss(epsilon=0.1)
    assert loss.plan is None
    loss(points(), points(9))
    first = loss.plan.epsilon
    loss(points() * 0.9, points(9))
    assert loss.plan.epsilon == pytest.approx(first, rel=1e-9)
    pairs = torch.tensor([[0], [0]])
    loss(points() * 0.8, points(9), known_pairs=pairs)
    known = loss.plan.epsilon
    assert known != pytest.approx(first, rel=1e-3)
    loss(points() * 0.9, points(9), known_pairs=pairs)
    assert loss.plan.epsilon == pytest.approx(known, rel=1e-9)
    loss(points() * 0.9, points(10))
    assert loss.plan.shape == (12, 10)
    assert loss.plan.epsilon != pytest.approx(first, rel=1e-3)
    loss.forget()
    assert loss.plan is None


def test_it_says_what_it_is_and_refuses_bad_options():
    text = repr(GromovWassersteinLoss(epsilon=0.1))
    assert text.startswith("GromovWassersteinLoss(cost=None, epsilon=0.1")
    assert not list(GromovWassersteinLoss().parameters())
    with pytest.raises(ValueError, match="Expected 'epsilon'"):
        GromovWassersteinLoss(epsilon=-1.0)
    with pytest.raises(ValueError, match="Expected 'marginals'"):
        GromovWassersteinLoss(marginals="some")
    with pytest.raises(ValueError, match="Expected 'marginals'"):
        GromovWassersteinLoss(marginals="partial")


def test_another_kind_of_cost_from_the_same_coordinates_is_noticed():
    """Signs, the kind, and the mean of kernels, which distances do not have, are of the cost."""
    x, y, sign = points(seed=0), points(seed=1), torch.tensor([1.0, -1.0]).double()
    loss = GromovWassersteinLoss(epsilon=0.3, tol=1e-3)
    for sides in (
        (Factor(x), Factor(y)),
        (Factor(x, "kernel"), Factor(y, "kernel")),
        (Factor(x + 5, "kernel"), Factor(y + 5, "kernel")),
        (Factor(x, "kernel"), Factor(y, "kernel")),
        (Factor(x, "kernel", sign), Factor(y, "kernel", sign)),
    ):
        expected = gw_distance(*sides, epsilon=0.3, tol=1e-3, progress=False)
        torch.testing.assert_close(loss(*sides), expected)


@pytest.mark.parametrize("marginals", ["semirelaxed", "unbalanced"])
def test_an_interrupted_call_leaves_what_the_last_one_left(marginals):
    x, y = points(), points(10, 2, 1)
    loss, expected = (GromovWassersteinLoss(marginals=marginals) for _ in range(2))

    loss(x, y), expected(x, y)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Task, "solve", interrupt)
        with pytest.raises(KeyboardInterrupt):
            loss(9 * x, y)
    assert torch.equal(loss(1.01 * x, y), expected(1.01 * x, y))
