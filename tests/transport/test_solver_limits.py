"""What the solver refuses, what it says, and what it is known to do wrong."""

import logging

import pytest
import torch
from torch_geometric.data import Data
from transport.problems import align, permutation, points

from jsem_pyg.transport import Factor, FeatureCost

X, Y = points(8, 3, 0, torch.float32), points(6, 2, 1, torch.float32)
NOTHING = torch.zeros(8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": Y[:0]}, r"'target' to have shape \[N, D\], not empty"),
        ({"target": Factor(Y)}, "costs of one kind .got 'kernel' and 'sqdist'"),
        ({"target": Y.double()}, "one type on one device"),
        ({"target": Data(num_nodes=3)}, "'target' to have edges"),
        ({"p": NOTHING}, "'p' to have mass somewhere"),
        ({"q": torch.tensor([1.0, 1e-12, 1, 1, 1, 1])}, "'q' to be zero, or at least 1e-09 of its"),
        ({"source": 1e-8 * X, "target": Y}, "'source' to have a largest cost from 1e-12 to 1e.12"),
        ({"source": X, "target": 1e8 * Y}, "'target' to have a largest cost from 1e-12 to 1e.12"),
        ({"epsilon": 1e-15, "absolute": True}, "'epsilon' to be at least"),
        ({"alpha": 1.0}, "'alpha' to lie in"),
        ({"known_pairs": torch.tensor([0, 1])}, r"'known_pairs' to be a tensor \[2, M\]"),
        ({"features": (X, Y)}, r"'features' to be \[8, d\] and \[6, d\]"),
        ({"starts": ["heat", "warm"]}, "'starts' to be some of 'heat', .* .got 'warm'"),
        ({"starts": align(X, X, starts=["axes"])}, "'starts' to be a plan of 8 x 6 points"),
    ],
)
def test_what_is_refused(change, message):
    with pytest.raises(ValueError, match=message):
        align(**{"source": X, "target": Y, **change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cost": lambda side: side}, "'cost' to make a Factor .got Tensor"),
        ({"starts": "heat"}, "'starts' to be a Plan, or some of"),
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


def test_cold_plans_still_have_their_rows():
    """An absolute temperature is reached whatever happens; the plan must stay one."""
    first, second = points(30, 4, 0, torch.float32), points(25, 3, 1, torch.float32)
    plan = align(first, second, starts=["axes"], epsilon=1e-3, absolute=True)
    rows, columns = plan.marginals()
    torch.testing.assert_close(rows, torch.full((30,), 1 / 30).double(), rtol=1e-3, atol=0)
    assert plan.converged == (float((columns - 1 / 25).abs().sum()) < 1e-2)
