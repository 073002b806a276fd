"""Terms of the objective against their definitions, by dense matrices."""

import pytest
import torch

from jsem_pyg.transport import Factor
from jsem_pyg.transport.problem.objective import known_pull


@pytest.mark.parametrize("kind", ["sqdist", "kernel"])
def test_known_pairs_pull_as_their_definition_says(kind):
    g = torch.Generator().manual_seed(0)
    first, second = (
        Factor(torch.randn(n, 3, generator=g, dtype=torch.float64), kind=kind) for n in (6, 5)
    )
    plan = torch.rand(6, 5, generator=g, dtype=torch.float64)
    plan = plan / plan.sum()
    pairs = torch.tensor([[0, 4, 2], [1, 3, 0]])
    r, c = plan.sum(1), plan.sum(0)
    centred = [each.x - mass @ each.x for each, mass in ((first, r), (second, c))]
    weight = 4.0 if kind == "sqdist" else 1.0
    inner = [(x @ x.T) for x in centred]
    pull = torch.einsum("im,ij,jm->", inner[0][:, pairs[0]], plan, inner[1][:, pairs[1]])
    moments = centred[0].T @ (r[:, None] * centred[0])
    axes = float(moments.trace() ** 2 / moments.square().sum())
    found = known_pull(first, second, pairs, lambda y: plan @ y, r, c)
    assert float(found) == pytest.approx(-4 / (3 + axes) * weight * float(pull))
