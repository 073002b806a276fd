"""A graph, its weights and conductances -> its operator, in the type that it needs."""

import torch
from torch import Tensor

from ..graph.rows import GraphRows
from ..kernels.torch_func import lasting
from ..operators import HeatOperator
from ..operators.laplacian import (
    Entries,
    check_mass,
    laplacian_entries,
    relative_weights,
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
    loop, normalization = options.self_loop, options.normalization
    if node_mass is not None:
        check_mass(node_mass, structure, normalization)
    if edge_weight is None and conductance is None and node_mass is None:
        entries = _unweighted(structure, normalization, loop)
    else:
        weight = slot_weights(structure, edge_weight, conductance)
        if conductance is not None and loop > 0 and normalization is not None:
            weight = relative_weights(structure, weight, edge_weight)
        entries = laplacian_entries(structure, weight, normalization, loop, node_mass)
    scaling = entries.scaling
    dtype = choose_dtype(x, times.reach(scaling.rate), options.tol)
    steep = scaling.condition > _STEEPEST and x.device.type != "mps"
    return entries.to(torch.float64 if steep else dtype)


@lasting
def _unweighted(structure: GraphRows, normalization: str | None, self_loop: float) -> Entries:
    """Compute the entries of a graph without weights, once for each choice."""
    key = normalization, self_loop
    if key not in structure.unweighted:
        weight = slot_weights(structure, None)
        structure.unweighted[key] = laplacian_entries(structure, weight, normalization, self_loop)
    entries: Entries = structure.unweighted[key]
    return entries
