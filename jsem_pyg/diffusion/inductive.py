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
itself. It is a function of the Laplacian as well:
:math:`(e^{-t \lambda} - e^{-t}) / (1 - \lambda)`.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from .._checks import check_choice
from ..graph import GraphStructure
from .evolve import evolve, heat_operator
from .filters import FilterBank, FromFunction
from .options import HeatOptions
from .times import MARGIN, heat_degree, read_times


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
    degree = heat_degree(t, MARGIN * tol / operator.condition)
    parts = FromFunction(lambda at: torch.exp(-t * at)), FromFunction(partial(_incoming, t=t))
    heat, incoming = evolve(x, operator, FilterBank(*parts), replace(options, degree=degree))
    weight = edge_weight if conductance is None else edge_weight * conductance
    total = weight.new_zeros(structure.num_nodes).index_add(0, structure.edges[0].long(), weight)
    total = torch.where(total > 0, total, 1)  # isolated nodes have a loop
    return HeatField(heat, incoming, total.to(x.dtype), float(t), normalization)


def _incoming(eigenvalue: Tensor, t: float) -> Tensor:
    """Return the incoming heat of a mode, (e^(-t lambda) - e^(-t)) / (1 - lambda)."""
    s = 1 - eigenvalue
    # By the larger exponential, so that none overflows.
    rise = -torch.expm1(-t * s.abs()) / s.abs()
    return torch.where(s == 0, t * math.exp(-t), rise * torch.exp(-t * (1 - s.clamp(min=0))))
