"""A graph, its weights and conductances -> its operator, in the type that it needs."""

import torch
from torch import Tensor

from ..graph.rows import GraphRows
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
    weight = slot_weights(structure, edge_weight, conductance)
    rate = 1.0
    if node_mass is not None:
        check_mass(node_mass, structure, options.normalization)
    if options.normalization is None:
        rate = combinatorial_rate(structure, weight, node_mass)
    dtype = choose_dtype(x, times.reach(rate), options.tol)
    given = options.normalization, options.self_loop, node_mass
    wide = torch.promote_types(weight.dtype, dtype)
    entries = laplacian_entries(structure, weight.to(wide), *given, dtype)
    if dtype == torch.float64 or entries.scaling.condition <= _STEEPEST or x.device.type == "mps":
        return entries
    return laplacian_entries(structure, weight.double(), *given, torch.float64)
