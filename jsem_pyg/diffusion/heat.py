"""A graph, its weights and conductances -> its operator, in the type that it needs."""

import torch
from torch import Tensor

from ..graph.rows import GraphRows
from ..kernels.torch_func import lasting
from ..operators import HeatOperator
from ..operators.laplacian import (
    Entries,
    check_mass,
    combinatorial_rate,
    laplacian_entries,
    slot_weights,
)
from .evolve import SpectralFilter
from .options import HeatOptions
from .precision import choose_dtype
from .times import Times

_STEEPEST = 1e6  # roots of degrees that are further apart magnify signals in float64


def heat_operator(
    structure: GraphRows,
    edge_weight: Tensor | None,
    x: Tensor,
    times: Times | SpectralFilter,
    options: HeatOptions,
    conductance: Tensor | None = None,
    node_mass: Tensor | None = None,
) -> HeatOperator:
    """Make the operator of weights [E] times conductances [E], precise enough for x and times."""
    entries = heat_entries(structure, edge_weight, x, times, options, conductance, node_mass)
    matrix = structure.make_matrix(entries.off_diagonal, entries.diagonal, options.backend)
    return HeatOperator(matrix, entries.scaling, entries.off_diagonal.dtype)


def heat_entries(
    structure: GraphRows,
    edge_weight: Tensor | None,
    x: Tensor,
    times: Times | SpectralFilter,
    options: HeatOptions,
    conductance: Tensor | None = None,
    node_mass: Tensor | None = None,
) -> Entries:
    """Compute the entries of S, in the type that x and the times or the filter need."""
    loop, tol, normalization = options.self_loop, options.tol, options.normalization
    if node_mass is not None:
        check_mass(node_mass, structure, normalization)
    if edge_weight is None and conductance is None and normalization is not None:
        dtype = choose_dtype(x, times.reach(1.0), tol)
        return _unweighted(structure, normalization, loop, dtype)
    weight = slot_weights(structure, edge_weight, conductance)
    rate = 1.0 if normalization else combinatorial_rate(structure, weight, node_mass)
    dtype = choose_dtype(x, times.reach(rate), tol)
    wide = torch.promote_types(weight.dtype, dtype)
    entries = laplacian_entries(structure, weight.to(wide), normalization, loop, node_mass, dtype)
    if dtype == torch.float64 or entries.scaling.condition <= _STEEPEST or x.device.type == "mps":
        return entries
    return laplacian_entries(
        structure, weight.double(), normalization, loop, node_mass, torch.float64
    )


@lasting
def _unweighted(
    structure: GraphRows, normalization: str, self_loop: float, dtype: torch.dtype
) -> Entries:
    """Compute the entries of a graph without weights, once for each choice."""
    key = normalization, self_loop, dtype
    if key not in structure.unweighted:
        weight = slot_weights(structure, None, dtype=dtype)
        structure.unweighted[key] = laplacian_entries(
            structure, weight, normalization, self_loop, dtype=dtype
        )
    entries: Entries = structure.unweighted[key]
    return entries
