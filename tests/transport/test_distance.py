"""The distance: its value is POT's at the same plan, its gradients are finite differences."""

import ot
import pytest
import torch
from tiny_graphs import ring
from torch.autograd import forward_ad
from torch_geometric.data import Data

from jsem_pyg.transport import Factor, HeatCost, gromov_wasserstein, gw_distance

N, K = 6, 5
TIGHT = {"tol": 1e-12, "max_iter": 300, "progress": False}


class Case:
    """A problem as a function of tensors, near one of its optima."""

    def __init__(self, kind="kernel", signed=False, seed=0, **options):
        generator = torch.Generator().manual_seed(seed)

        def draw(*shape):
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        self.kind, self.options = kind, {"epsilon": 0.3, **options}
        self.sign = torch.tensor([1.0, -1.0]).double() if signed else None
        # Squares of kernels of two signs are not concave: what the solver does may go to and fro.
        axes = torch.tensor([1.0, 0.5]).double() if signed else 1.0
        self.tensors = {
            "x": draw(N, 2) * axes, "y": draw(K, 2) * axes, "a": draw(N) / 3, "b": draw(K) / 3,
            "phi": draw(N, 2), "psi": draw(K, 2),
        }  # fmt: skip
        self.plan = gromov_wasserstein(*self.sides(self.tensors), **self.rest({}), **TIGHT)

    def sides(self, tensors):
        return [Factor(tensors[name], self.kind, self.sign) for name in ("x", "y")]

    def rest(self, changed):
        now = {**self.tensors, **changed}
        rest = {**self.options, "p": now["a"].softmax(0), "q": now["b"].softmax(0)}
        if "alpha" in rest:
            rest["features"] = now["phi"], now["psi"]
        return rest

    def value(self, **changed):
        """At the temperature of the plan, from the plan on."""
        sides = self.sides({**self.tensors, **changed})
        rest = {**self.rest(changed), "epsilon": self.plan.epsilon, "absolute": True}
        return gw_distance(*sides, **rest, starts=self.plan, **TIGHT)

    def is_gradient_exact(self, *names):
        assert self.plan.converged
        inputs = [self.tensors[name].clone().requires_grad_() for name in names]
        return torch.autograd.gradcheck(
            lambda *given: self.value(**dict(zip(names, given, strict=True))),
            inputs,
            atol=1e-6,
            fast_mode=True,
        )


@pytest.mark.parametrize("kind", ["kernel", "sqdist"])
def test_gradients_in_coordinates(kind):
    case = Case(kind)
    assert case.is_gradient_exact("x", "y")


def test_gradients_with_features_and_known_pairs():
    case = Case(alpha=0.4, known_pairs=torch.tensor([[0, 1], [2, 3]]))
    assert case.is_gradient_exact("x", "phi", "psi")


def test_gradients_of_signed_kernels():
    case = Case(signed=True, epsilon=0.6)
    assert case.is_gradient_exact("x", "y")


def test_gradients_in_edge_weights():
    edges, _ = ring(4)
    cost = HeatCost(t=1.0)
    weight = torch.tensor([1.0, 2.0, 0.5, 1.5], dtype=torch.float64)
    target = Factor(
        torch.randn(4, 2, generator=torch.Generator().manual_seed(1)).double() / 2, "kernel"
    )
    source = cost(Data(edge_index=edges, edge_weight=weight.repeat(2), num_nodes=4))
    plan = gromov_wasserstein(source, target, epsilon=0.3, **TIGHT)
    options = {"epsilon": plan.epsilon, "absolute": True, "starts": plan, **TIGHT}

    def value(weight):
        data = Data(edge_index=edges, edge_weight=weight.repeat(2), num_nodes=4)
        return gw_distance(data, target, cost=lambda side: cost(side), **options)

    assert torch.autograd.gradcheck(value, weight.requires_grad_(), atol=1e-6, fast_mode=True)


@pytest.mark.parametrize("kind", ["kernel", "sqdist"])
def test_value_is_that_of_pot_at_the_same_plan(kind):
    case = Case(kind, alpha=0.7)
    (first, second), rest = case.sides(case.tensors), case.rest({})
    plan, costs = case.plan.dense(), (first.dense(), second.dense())
    constant, left, right = ot.gromov.init_matrix(*costs, plan.sum(1), plan.sum(0))
    quadratic = ot.gromov.gwloss(constant, left, right, plan)
    linear = (torch.cdist(*rest["features"]).square() * plan).sum()
    entropy = (plan * (plan / (rest["p"][:, None] * rest["q"])).log()).sum()
    expected = 0.7 * quadratic + 0.3 * linear + case.plan.epsilon * entropy
    torch.testing.assert_close(case.value(), expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize("name", ["p", "q"])
def test_gradients_in_masses_are_refused(name):
    case = Case()
    mass = torch.full((N if name == "p" else K,), 0.2, requires_grad=True)
    with pytest.raises(ValueError, match=f"Expected '{name}' without a gradient"):
        gw_distance(*case.sides(case.tensors), **{name: mass}, progress=False)


def test_a_misspelled_option_is_named():
    with pytest.raises(TypeError, match="'max_itre' to be left out of gw_distance"):
        gw_distance(torch.eye(3), torch.eye(3), max_itre=3)


@pytest.mark.parametrize("name", ["x", "y", "phi"])
def test_a_second_derivative_is_refused(name):
    """The plan moves as well, which its first derivative does not show."""
    case = Case(alpha=0.7)
    given = case.tensors[name].clone().requires_grad_()
    with pytest.raises(NotImplementedError, match="differentiated once .got create_graph"):
        torch.autograd.grad(case.value(**{name: given}), given, create_graph=True)


def _dual(function, given):
    with forward_ad.dual_level():
        return function(forward_ad.make_dual(given, torch.ones_like(given)))


def _pushed(function, given):
    return torch.func.jvp(function, (given,), (torch.ones_like(given),))


OTHER_MODES = [_dual, _pushed, lambda function, given: torch.func.grad(function)(given)]


@pytest.mark.parametrize("mode", OTHER_MODES)
@pytest.mark.parametrize("name", ["x", "phi"])
def test_other_modes_of_differentiation_are_refused(mode, name):
    """In forward mode the value had no derivative, without a word."""
    case = Case(alpha=0.7)
    with pytest.raises((RuntimeError, NotImplementedError)):
        mode(lambda given: case.value(**{name: given}), case.tensors[name])


def test_within_inference_mode_it_is_the_same():
    x, y = (torch.randn(8, 2, generator=torch.Generator().manual_seed(s)) for s in (0, 1))
    expected = gw_distance(x, y, progress=False)
    with torch.inference_mode():
        assert torch.equal(gw_distance(x, y, progress=False), expected)
