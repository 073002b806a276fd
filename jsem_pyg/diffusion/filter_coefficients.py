r"""The Chebyshev series of any function of the Laplacian, by the discrete cosine transform.

.. math::
    f(r (1 - s)) = \sum_{k \ge 0} c_k T_k(s), \qquad
    c_k = \frac{2 - [k = 0]}{M} \sum_{m < M} f(r (1 - \cos \theta_m)) \cos k \theta_m, \qquad
    \theta_m = \frac{\pi (m + 1/2)}{M}

(Trefethen 2013, "Approximation Theory and Approximation Practice", chapters 3 and 4).
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

# Eigenvalues [M] -> the values [S, M] of S functions there
Response = Callable[[Tensor], Tensor]

_FEWEST, _MOST = 256, 2**16  # samples of a function
_MISSED = 16  # times the error allowed: what a series may be off at the ends of the spectrum
_KINK = 1e-3  # of the largest value: what a kink may be off, where the degree is given
_EPS = torch.finfo(torch.float64).eps
_NOISE = 4096  # times the rounding unit: below, a coefficient has hardly a digit that is right
_LOSS = 16  # so many units in the last place of float64 are lost to the transform


def cosine_coefficients(
    response: Response,
    rate: float,
    degree: int | None,
    bound: float,
    learned: Sequence[Tensor] = (),
    name: str = "one",
) -> Tensor:
    """Compute the coefficients [K + 1, S] of functions of r (1 - s), s in [-1, 1].

    With degree None, the fewest that leave an error of `bound`, relative to the largest value, also
    of the derivatives in numbers that are `learned`. Errors call the functions by `name`.
    """
    count = _FEWEST if degree is None else max(_FEWEST, 2 ** (degree + 1).bit_length())
    while True:
        values = response(eigenvalue_samples(rate, count))
        _check_values(values)
        found = _transform(values)
        sizes = found.detach().abs().amax(1)
        tails = sizes.flip(0).cumsum(0).flip(0)[1:]  # what is left out after each degree
        missed, height = _missed(response, rate, found)
        height = max(height, float(values.detach().abs().amax()))
        # A function can be zero in all samples, and one where the eigenvalue is.
        allowed = max(bound, _LOSS * _EPS) * height
        sees_ends = missed <= _MISSED * allowed
        if degree is None:
            enough = int((tails > allowed).sum())
            # Through one term at least gradients reach the weights, where it is not rounding alone.
            enough = max(enough, int(float(sizes[1]) > _NOISE * _EPS * height))
            # Coefficients of the last half would alias: the function is not resolved yet.
            if enough < count // 2 and sees_ends:
                enough = max(enough, _terms_of_derivatives(found, learned, bound))
                return found[: enough + 1]
        else:
            # The samples are so fine that the coefficients have settled.
            is_settled = float(tails[count // 2 - 1]) <= 1e-12 * height
            if (is_settled and sees_ends) or (count >= _MOST and missed <= _KINK * height):
                return found[: degree + 1]
        if count >= _MOST:
            error = max(missed, float(tails[_MOST // 2]))
            raise ValueError(
                f"Expected a filter that a polynomial of degree {_MOST // 2} follows within "
                f"{bound:.1e} (got {name} with an error of {error:.1e}). To fix "
                "this, take a smoother filter, a larger 'tol', or a 'degree'."
            )
        count *= 2


def _terms_of_derivatives(found: Tensor, learned: Sequence[Tensor], bound: float) -> int:
    """Count the terms that derivatives in numbers need, among the ones that samples resolve.

    Where a filter is flat or zero, its derivatives may have more terms than it has itself.
    """
    terms = 0
    for number in learned if found.requires_grad else ():
        # A derivative that is linear in v, whose own derivative has one number for each term.
        v = torch.zeros_like(found, requires_grad=True)
        (grad,) = torch.autograd.grad(found, number, v, create_graph=True, allow_unused=True)
        if grad is None or not grad.requires_grad:
            continue
        (slope,) = torch.autograd.grad(grad.sum(), v)
        sizes = slope.abs().amax(1).nan_to_num()
        tails = sizes.flip(0).cumsum(0).flip(0)[1:]
        allowed = max(bound, _LOSS * _EPS) * float(sizes.amax())
        terms = max(terms, int((tails > allowed).sum()))
    return min(terms, len(found) // 2 - 1)


def _missed(response: Response, rate: float, found: Tensor) -> tuple[float, float]:
    """Measure how far the series is off at eigenvalues 0 and 2 r; return the values there."""
    ends = response(torch.tensor([0.0, 2 * rate], dtype=torch.float64, device="cpu")).detach()
    _check_values(ends)
    signs = torch.ones(len(found), dtype=torch.float64, device="cpu")
    signs[1::2] = -1  # T_k(-1)
    series = torch.stack([found.detach().sum(0), signs @ found.detach()], 1)
    return float((series - ends).abs().amax()), float(ends.abs().amax())


def eigenvalue_samples(rate: float, count: int) -> Tensor:
    """Return the eigenvalues r (1 - cos theta_m) [M], where a function is sampled."""
    # 1 - cos theta, without the cancellation at small angles
    half = math.pi * (torch.arange(count, dtype=torch.float64, device="cpu") + 0.5) / (2 * count)
    return 2 * half.sin().square() * rate


def _transform(values: Tensor) -> Tensor:
    """Transform [S, M] samples -> [M, S] coefficients: the DCT of type II, by a real FFT."""
    values = values.movedim(1, 0)
    count = len(values)
    spectrum = torch.fft.rfft(torch.cat([values, values.flip(0)]), dim=0)[:count]
    angle = -math.pi / (2 * count) * torch.arange(count, dtype=torch.float64, device="cpu")
    turned = (spectrum * torch.polar(torch.ones_like(angle), angle).unsqueeze(1)).real / count
    return torch.cat([turned[:1] / 2, turned[1:]])


def _check_values(values: Tensor) -> None:
    if not bool(values.detach().isfinite().all()):
        raise ValueError("Expected the values of a filter to be finite (got NaN or infinite ones).")
