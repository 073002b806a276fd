"""A graph, its weights and conductances -> its operator, in the type that it needs."""

import torch
from torch import Tensor

from ..graph.rows import GraphRows
from ..kernels.torch_func import lasting
from ..operators import HeatOperator
from ..operators.laplacian import Entries, laplacian_entries
from .evolve import SpectralFunction
from .options import HeatOptions
from .precision import choose_dtype


def heat_operator(
    structure: GraphRows,
    edge_weight: Tensor | None,
    given: torch.dtype,
    function: SpectralFunction,
    options: HeatOptions,
    conductance: Tensor | None = None,
    node_mass: Tensor | None = None,
) -> HeatOperator:
    """Make the operator of weights [E] times conductances [E], precise enough.

    That is for signals of the type `given`, and for the times or the filter.
    """
    entries = heat_entries(structure, edge_weight, given, function, options, conductance, node_mass)
    return entries.operator(structure, options.backend)


def heat_entries(
    structure: GraphRows,
    edge_weight: Tensor | None,
    given: torch.dtype,
    function: SpectralFunction,
    options: HeatOptions,
    conductance: Tensor | None = None,
    node_mass: Tensor | None = None,
) -> Entries:
    """Compute the entries of S; see :func:`heat_operator`."""
    if edge_weight is None and conductance is None and node_mass is None:
        entries = _unweighted(structure, options.normalization, options.self_loop)
    else:
        entries = laplacian_entries(
            structure, edge_weight, options.normalization, conductance, options.self_loop, node_mass
        )
    reach = function.reach(entries.rate)
    return entries.to(choose_dtype(given, structure.row.device, reach, options.tol))


@lasting
def _unweighted(structure: GraphRows, normalization: str | None, self_loop: float) -> Entries:
    """Compute the entries of a graph without weights, once for each choice."""
    key = normalization, self_loop
    if key not in structure.unweighted:
        structure.unweighted[key] = laplacian_entries(
            structure, None, normalization, None, self_loop
        )
    entries: Entries = structure.unweighted[key]
    return entries
