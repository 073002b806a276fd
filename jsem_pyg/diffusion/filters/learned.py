"""A filter that is learned: a polynomial, by its values."""

import torch
from torch import Tensor

from ..._checks import check_instance, check_positive_int
from .filter import Filter


class Learned(Filter):
    r"""Learns a filter: a polynomial of S, by its values at K + 1 Chebyshev points.

    .. math::
        f = \sum_k c_k T_k(S), \qquad
        c_k = \frac{2 - [k = 0]}{K + 1} \sum_j \gamma_j T_k(s_j), \qquad
        s_j = \cos \frac{\pi (j + 1/2)}{K + 1}

    Values, unlike coefficients, keep the polynomial bounded by what is learned (He, Wei and Wen
    2022, "Convolutional neural networks on graphs with Chebyshev approximation, revisited",
    equation 8). Law: f is the polynomial through the values. Where L = r (I - S) with another rate
    r than one (1/2 on hypergraphs, a bound of the spectrum without normalisation), f is a function
    of :math:`\lambda / r`.

    Args:
        degree: K.
        start: the filter that it is at first; None: the identity.
    """

    def __init__(self, degree: int = 10, start: Filter | None = None) -> None:
        super().__init__()
        check_positive_int("degree", degree)
        if start is not None:
            check_instance("start", start, Filter, "a filter or None")
        self.degree, self.start = degree, start
        self.value = torch.nn.Parameter(torch.empty(degree + 1))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Go back to the first filter."""
        half = torch.pi * (torch.arange(self.degree + 1, dtype=torch.float64, device="cpu") + 0.5)
        eigenvalue = 2 * (half / (2 * self.degree + 2)).sin().square()
        start = torch.ones_like(eigenvalue)
        self.value.copy_(start if self.start is None else self.start.response(eigenvalue))

    def response(self, eigenvalue: Tensor) -> Tensor:
        """Return the polynomial, for eigenvalues in [0, 2], those of normalised Laplacians."""
        c = self._chebyshev().to(eigenvalue)
        s = 1 - eigenvalue
        last, out = torch.zeros_like(s), torch.zeros_like(s)
        for each in c.flip(0)[:-1]:
            last, out = out, 2 * s * out - last + each  # Clenshaw 1955
        return s * out - last + c[0]

    def slope(self, rate: float) -> float:
        """See :class:`Filter`; of a function of the eigenvalue over the rate."""
        return super().slope(1.0)

    def extra_repr(self) -> str:
        """Name the degree and the start."""
        return f"degree={self.degree}, start={self.start}"

    def _chebyshev(self) -> Tensor:
        count = self.degree + 1
        k = torch.arange(count, dtype=torch.float64, device="cpu")
        cosines = torch.cos(torch.pi / count * k.unsqueeze(1) * (k + 0.5)) * 2 / count
        cosines[0] /= 2
        return cosines @ self.value.to("cpu", torch.float64)

    def _series(self, rate: float, degree: int | None, bound: float) -> Tensor:
        return self._chebyshev().unsqueeze(1)
