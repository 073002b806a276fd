r"""Out-of-sample (inductive) extension of a heat flow to new points; the graph stays as it is.

Heat flows from its neighbours to a new point v, and not back. With the heat of the graph,
:math:`\mathbf{Y}(s) = e^{-s \mathbf{L}} \mathbf{X}`, and a row S_v of weights to its neighbours,

.. math::
    \mathbf{u}(0) = \mathbf{x}_v, \qquad
    \frac{d \mathbf{u}}{d s} = -\mathbf{u} + \sum_j S_{vj} \, \mathbf{y}_j(s)

which is the last row of exp(-tL) on the graph with v and its one-way edges. Hence

.. math::
    \mathbf{u}(t) = e^{-t} \mathbf{x}_v + \sum_j S_{vj} \, \mathbf{z}_j, \qquad
    \mathbf{Z} = \int_0^t e^{-(t - s)} e^{-s \mathbf{L}} \mathbf{X} \, ds
    = \sum_{k \ge 0} a_k(t) \, T_k(\mathbf{S}) \, \mathbf{X}

The incoming heat Z depends on the graph alone, and shares the products T_k(S) X with the heat
itself. Its coefficients are those of the heat, integrated (Abramowitz and Stegun 1964, 11.1.2, of I
in place of J):

.. math::
    a_k(t) = (2 - [k = 0]) \, e^{-t} \int_0^t I_k(s) \, ds
    = 2 \, (2 - [k = 0]) \sum_{m \ge 0} (-1)^m \, e^{-t} I_{k + 1 + 2m}(t)
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from scipy.special import ive
from torch import Tensor

from .._checks import check_choice
from ..graph import GraphStructure
from .evolve import sum_series
from .heat import heat_operator
from .heat_coefficients import heat_coefficients, heat_degree
from .options import HeatOptions
from .times import MARGIN, read_times


@dataclass(frozen=True)
class HeatField:
    """The heat of a graph after a time, and the heat that new points receive.

    Attributes:
        heat: [N, D] of the nodes, exp(-tL) X.
        incoming: [N, D] heat received over an edge of weight one, Z above.
        degree: [N] of the nodes.
        t: the time.
        normalization: "sym", where S_vj = w_vj / sqrt(d_v d_j), or "rw", where S_vj = w_vj / d_v.
    """

    heat: Tensor
    incoming: Tensor
    degree: Tensor
    t: float
    normalization: str

    def at(self, x_new: Tensor, neighbor: Tensor, weight: Tensor) -> Tensor:
        """Return the heat [M, D] of new points, row by row: none depends on another.

        Of their own signal u(0) [M, D], and neighbours [M, k] with their weights. A point that has
        no weight is isolated, and keeps its signal.
        """
        weight = weight.to(self.incoming.dtype)
        degree = weight.sum(1, keepdim=True)
        safe = torch.where(degree > 0, degree, 1)
        share = _SHARES[self.normalization](weight, safe, self.degree[neighbor])
        received = F.embedding_bag(neighbor, self.incoming, mode="sum", per_sample_weights=share)
        return torch.where(degree > 0, math.exp(-self.t) * x_new + received.to(x_new.dtype), x_new)


# The entries S_vj of a new point v: its weights, its degree, the degrees of its neighbours j.
_SHARES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "sym": lambda weight, degree, others: weight / degree.sqrt() / others.sqrt(),
    "rw": lambda weight, degree, others: weight / degree,
}


@torch.no_grad()
def heat_field(
    x: Tensor,
    structure: GraphStructure,
    edge_weight: Tensor,
    t: float,
    *,
    conductance: Tensor | None = None,
    normalization: str = "sym",
    tol: float = 1e-6,
) -> HeatField:
    """Diffuse a signal [N, D], and keep what the heat of new points is computed from.

    Options are those of :func:`~jsem_pyg.diffusion.heat_diffusion`; without a normalisation, a
    point's own weights would set its pace.
    """
    check_choice("normalization", normalization, _SHARES)
    options = HeatOptions(tol=tol, normalization=normalization)
    times = read_times(t, x.size(-1))
    operator = heat_operator(structure, edge_weight, x.dtype, times, options, conductance)
    degree = heat_degree(t, MARGIN * tol / operator.scaling.condition)
    # [K + 1, 2, 1]: of the heat, and of the incoming heat.
    of_heat = heat_coefficients(torch.tensor(t, dtype=torch.float64, device="cpu"), degree)
    coefficients = torch.stack([of_heat, incoming_coefficients(t, degree)], 1).unsqueeze(-1)
    # Isolated nodes keep their heat, and pass it on all the time.
    alone = torch.tensor([1, -math.expm1(-t)], dtype=torch.float64)
    heat, incoming = sum_series(x, operator, coefficients.to(x.device, operator.dtype), alone)
    weight = edge_weight if conductance is None else edge_weight * conductance
    total = weight.new_zeros(structure.num_nodes).index_add(0, structure.edges[0].long(), weight)
    total = torch.where(total > 0, total, 1)  # isolated nodes have a loop
    return HeatField(heat, incoming, total.to(x.dtype), float(t), normalization)


def incoming_coefficients(t: float, degree: int) -> Tensor:
    """Return the coefficients a_0(t), ..., a_K(t) of the incoming heat, in float64.

    Example:
        >>> a = incoming_coefficients(1.0, degree=30)
        >>> f"{a.sum():.6f}"  # at S = 1, where nothing decays, the integral is 1 - exp(-t)
        '0.632121'
    """
    count = 32
    while ive(float(degree + count), t) > 0:
        count *= 2
    bessel = ive(np.arange(1.0, degree + count + 1), t)
    # Sums over every other order, with alternating signs, from the highest order down.
    sums = np.zeros(len(bessel) + 2)
    for k in range(len(bessel) - 1, -1, -1):
        sums[k] = bessel[k] - sums[k + 2]
    coefficients = 4 * sums[: degree + 1]
    coefficients[0] /= 2
    return torch.from_numpy(coefficients)
