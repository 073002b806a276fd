r"""Diffuse heat on hypergraphs: one structure, any number of signals, no copies of either.

.. math::
    \mathbf{Y} = e^{-t (\mathbf{I} - \mathbf{S})} \mathbf{X}

A batch [..., N, D] folds into the columns of one product. Three methods evaluate the same series,

- ``"csr"``: the kernels of graphs, on S itself, an entry for every two nodes with a common
  hyperedge;
- ``"incidence"``: the two products :math:`\mathbf{H} (\mathbf{W} \mathbf{D}_e^{-1}
  \mathbf{H}^{\top} \mathbf{X})`, which never look at pairs of nodes;
- ``"dense"``: either of these, but on the N columns of the identity, which gives the heat kernel
  :math:`e^{-t \mathbf{L}}` [N, N]; then one dense product for all signals;

and the one that needs the fewest multiplications is taken, see :func:`method_costs`.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from .._checks import in_range
from .._precision import full_precision
from ..graph import HypergraphStructure
from ..operators import hypergraph_operator
from ..operators.factored import FACTORED
from .evolve import SpectralFilter, evolve
from .options import HeatOptions
from .precision import choose_dtype
from .times import Times

# A series has about so many terms: t = 3 and a relative error of 1e-6 need ten.
_TERMS = 10
# So many multiplications of a dense product take the time of one of a sparse product: an estimate
# from single timings on a CPU; a factor of two here moves few choices.
_DENSE_SPEEDUP = 8
# A term of the two products costs at least the time of so many multiplications, by estimate: it is
# half a dozen calls of torch, where the other methods evaluate all terms in one call, or in two for
# each.
_TERM_OVERHEAD = 10_000


def method_costs(
    structure: HypergraphStructure, num_columns: int, num_kernels: int = 1, num_scales: int = 1
) -> dict[str, float]:
    """Count the multiplications that each method needs, in units of a sparse product's.

    `num_columns` are the columns of all signals, `num_kernels` the different times: S D, if
    channels have their own.
    """
    size = structure.num_nodes**2

    def csr(columns: int) -> float:
        return structure.num_pairs + _TERMS * structure.num_slots * columns

    def incidence(columns: int) -> float:
        return _TERMS * (2 * structure.num_memberships * columns + _TERM_OVERHEAD)

    kernel = min(csr(structure.num_nodes), incidence(structure.num_nodes))
    product = num_scales * size * num_columns / _DENSE_SPEEDUP
    return {
        "csr": csr(num_columns),
        "incidence": incidence(num_columns),
        "dense": kernel + _TERMS * num_kernels * size + product,
    }


def hypergraph_heat(
    x: Tensor,
    structure: HypergraphStructure,
    hyperedge_weight: Tensor | None,
    times: Times | SpectralFilter,
    options: HeatOptions,
    method: str | None = None,
) -> Tensor:
    """Diffuse or filter [..., N, D] on a hypergraph -> [..., S, N, D], by the cheapest method."""
    # What is a scale of its own, and for which channels
    shape = times.value.shape if isinstance(times, Times) else (times.num_filters or 1, 1)
    can_factor = options.backend in ("auto", *FACTORED.backends)
    sparse = ("csr", "incidence") if can_factor else ("csr",)
    if method is None:
        num_columns = x.numel() // max(x.size(-2), 1)
        costs = method_costs(structure, num_columns, math.prod(shape), shape[0])
        method = min((*sparse, "dense"), key=costs.__getitem__)
    is_dense = method == "dense" and x.numel() > 0
    if method == "dense":
        method = min(sparse, key=method_costs(structure, x.size(-2)).__getitem__)

    reach = times.reach(0.5)  # the rate of hypergraphs is a half
    dtype = choose_dtype(x.dtype, x.device, reach, options.tol)
    if hyperedge_weight is not None:
        if not in_range(hyperedge_weight, dtype):
            dtype = torch.float64
        wide = torch.promote_types(hyperedge_weight.dtype, dtype)
        hyperedge_weight = hyperedge_weight.to(wide)
    by_factors, normalization = method == "incidence", str(options.normalization)
    heat = hypergraph_operator(
        structure, hyperedge_weight, normalization, by_factors, options.backend, dtype
    )
    if not is_dense:
        return evolve(x, heat, times, options)
    # Every time, of whatever scale and channel, is a scale of the identity.
    eye = torch.eye(x.size(-2), dtype=heat.dtype, device=x.device)
    if isinstance(times, Times):
        times = times._replace(value=times.value.reshape(-1, 1))
    kernel = evolve(eye, heat, times, options)
    with full_precision(x.device):
        out = _multiply(kernel.unflatten(0, shape), x.to(kernel.dtype))
    return out.to(x.dtype)


def _multiply(kernel: Tensor, x: Tensor) -> Tensor:
    """Multiply [S, 1 or D, N, N] kernels and [..., N, D] signals -> [..., S, N, D].

    The scales are rows of one matrix, interleaved so that the result of a node, all its scales
    side by side, lies together in memory.
    """
    num_scales, num_kernels, num_nodes, _ = kernel.shape
    if num_kernels > 1:
        return torch.einsum("sdnm,...md->...snd", kernel, x)
    rows = kernel[:, 0].transpose(0, 1).reshape(num_nodes * num_scales, num_nodes)
    if x.size(-1) < num_nodes:
        # One product of [B D, N] and [N, S N]: of a batched one, the gradient of the kernel would
        # be an [N, N] matrix for every signal, more than the signals themselves.
        out = F.linear(x.mT, rows).mT
    else:
        signals = x.reshape(-1, *x.shape[-2:])
        out = torch.bmm(rows.expand(signals.size(0), -1, -1), signals)
        out = out.reshape(*x.shape[:-2], *out.shape[-2:])
    return out.unflatten(-2, (num_nodes, num_scales)).transpose(-3, -2)
