r"""Diffuse heat on hypergraphs: one structure, any number of signals, no copies of either.

.. math::
    \mathbf{Y} = e^{-t (\mathbf{I} - \mathbf{S})} \mathbf{X}

A batch [..., N, D] folds into the columns of one product. It goes by the factors of S,
:math:`\mathbf{H} (\mathbf{W} \mathbf{D}_e^{-1} \mathbf{H}^{\top} \mathbf{X})`, and never looks at
pairs of nodes. Of few nodes and many signals, the heat kernel :math:`e^{-t \mathbf{L}}` [N, N] is
made first; then one dense product serves all signals.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from .._checks import in_range
from ..graph import HypergraphStructure
from ..kernels.torch_func import full_precision
from ..operators.hypergraph import hypergraph_operator
from .evolve import choose_dtype, evolve
from .filters import Filter
from .options import HeatOptions
from .times import Times

# A series has about so many terms: t = 3 and a relative error of 1e-6 need ten.
_TERMS = 10
# So many multiplications of a dense product take the time of one of a sparse product: an estimate
# from single timings on a CPU; a factor of two here moves few choices.
_DENSE_SPEEDUP = 8
# A term of the two products costs at least the time of so many multiplications, by estimate: it is
# half a dozen calls of torch.
_TERM_OVERHEAD = 10_000


def is_dense_cheaper(
    structure: HypergraphStructure, num_columns: int, num_kernels: int = 1, num_scales: int = 1
) -> bool:
    """Return True if a dense kernel needs fewer multiplications, in units of a sparse product's.

    `num_columns` are the columns of all signals, `num_kernels` the different times: S D, if
    channels have their own.
    """
    size, memberships = structure.num_nodes, 2 * structure.num_memberships
    factored = _TERMS * (memberships * num_columns + _TERM_OVERHEAD)
    kernel = memberships * size + _TERMS * size**2 * (size / _DENSE_SPEEDUP + num_kernels)
    return kernel + num_scales * size**2 * num_columns / _DENSE_SPEEDUP < factored


def hypergraph_heat(
    x: Tensor,
    structure: HypergraphStructure,
    hyperedge_weight: Tensor | None,
    times: Times | Filter,
    options: HeatOptions,
    by_kernel: bool | None = None,
) -> Tensor:
    """Diffuse or filter [..., N, D] on a hypergraph -> [..., S, N, D].

    By a dense kernel or without; None: whichever is cheaper.
    """
    # What is a scale of its own, and for which channels
    shape = times.value.shape if isinstance(times, Times) else (times.num_filters or 1, 1)
    if by_kernel is None:
        num_columns = x.numel() // max(x.size(-2), 1)
        by_kernel = is_dense_cheaper(structure, num_columns, math.prod(shape), shape[0])

    slope = times.slope(0.5)  # the rate of hypergraphs is a half
    dtype = choose_dtype(x.dtype, x.device, slope, options.tol)
    if hyperedge_weight is not None:
        if not in_range(hyperedge_weight, dtype):
            dtype = torch.float64
        wide = torch.promote_types(hyperedge_weight.dtype, dtype)
        hyperedge_weight = hyperedge_weight.to(wide)
    by_kernel &= x.numel() > 0
    normalization = str(options.normalization)
    heat = hypergraph_operator(
        structure, hyperedge_weight, normalization, options.backend, dtype, dense=by_kernel
    )
    if not by_kernel:
        return evolve(x, heat, times, options)
    eye = torch.eye(x.size(-2), dtype=heat.dtype, device=x.device)
    if isinstance(times, Times):  # every one, of whatever scale and channel, is a scale of its own
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
