"""What POT computes from the same start."""

import pytest
import torch
from transport.problems import align, gw_cost, masses, points

from jsem_pyg.transport import Factor

KINDS = ["kernel", "sqdist"]


class Case:
    """Two sides of different ranks and masses, and a temperature in the unit of their costs."""

    def __init__(self, kind, seed):
        self.first = Factor(points(14, 3, seed), kind)
        self.second = Factor(points(11, 2, seed + 50), kind)
        self.p, self.q = masses(14, seed), masses(11, seed + 9)
        c, d = self.first.dense(), self.second.dense()
        self.epsilon = 0.3 * float(c.abs().mean() * d.abs().mean())
        self.arrays = [each.numpy() for each in (c, d, self.p, self.q)]

    def align(self, **options):
        given = {"epsilon": self.epsilon, "absolute": True, "tol": 1e-9, "max_iter": 500}
        given |= {"p": self.p, "q": self.q}
        return align(self.first, self.second, **(given | options))

    def entropic_cost(self, plan):
        """The objective with its entropy."""
        independent = self.p[:, None] * self.q
        entropy = float(torch.special.xlogy(plan, plan / independent).sum())
        return gw_cost(self.first, self.second, plan) + self.epsilon * entropy


def solved_by_pot(solver, *arguments, **options):
    ot = pytest.importorskip("ot")
    solve = getattr(ot.gromov, solver)
    found = solve(*arguments, loss_fun="square_loss", tol=1e-12, max_iter=5000, **options)
    return torch.from_numpy(found)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", KINDS)
def test_the_optimum_is_that_of_pot(kind, seed):
    case = Case(kind, seed)
    ours = case.align()
    options = {"epsilon": case.epsilon, "G0": ours.dense().numpy()}
    theirs = solved_by_pot("entropic_gromov_wasserstein", *case.arrays, **options)
    assert ours.converged
    assert ours.cost == pytest.approx(gw_cost(case.first, case.second, theirs), rel=1e-6)
    torch.testing.assert_close(ours.dense(), theirs, atol=1e-6 * float(theirs.max()), rtol=0)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", KINDS)
def test_from_its_own_starts_it_is_never_worse(kind, seed):
    case = Case(kind, seed)
    theirs = solved_by_pot("entropic_gromov_wasserstein", *case.arrays, epsilon=case.epsilon)
    ours = case.align(max_iter=100).dense()
    assert case.entropic_cost(ours) <= case.entropic_cost(theirs) * (1 + 1e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_the_fused_optimum_is_that_of_pot(kind):
    case, features = Case(kind, 0), (points(14, 2, 3), points(11, 2, 7))
    linear = torch.cdist(*features).square()
    c, d, p, q = case.arrays
    ours = case.align(features=features, alpha=0.4)
    theirs = solved_by_pot(
        "entropic_fused_gromov_wasserstein", linear.numpy(), c, d, p, q,
        epsilon=case.epsilon, alpha=0.4, G0=ours.dense().numpy(),
    )  # fmt: skip
    structure = gw_cost(case.first, case.second, theirs)
    expected = 0.4 * structure + 0.6 * float((linear * theirs).sum())
    assert ours.cost == pytest.approx(expected, rel=1e-6)
    torch.testing.assert_close(ours.dense(), theirs, atol=1e-6 * float(theirs.max()), rtol=0)
