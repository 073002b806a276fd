"""The normalised operator of :mod:`.laplacian`, with S made by a few Triton kernels."""

import torch
from torch import Tensor

from .._checks import check_edge_vector
from ..graph.rows import GraphRows
from ..graph.structure import GraphStructure
from ..kernels.fused import SWITCHES
from ..kernels.table import CHEBYSHEV
from ..kernels.torch_func import is_transformed
from .heat_operator import HeatOperator


def can_fuse(structure: GraphRows, normalization: str | None, backend: str) -> bool:
    """Return True if Triton evaluates the series, and its kernels make this S as well."""
    return (
        SWITCHES.entries
        and normalization == "sym"
        and isinstance(structure, GraphStructure)
        and not structure.has_repeated_edges
        and CHEBYSHEV.choose(backend, structure.device) == "triton"
        and not is_transformed()
    )


def fused_operator(
    structure: GraphRows,
    edge_weight: Tensor | None,
    conductance: Tensor | None,
    self_loop: float,
    dtype: torch.dtype,
) -> HeatOperator:
    """Make the operator of weights [E] times conductances [E] in a given type; see `can_fuse`."""
    from ..kernels.chebyshev.triton_gpu import SparseOperator
    from ..kernels.fused.entries import Slots, normalized_entries

    assert isinstance(structure, GraphStructure)
    for name, values in (("edge_weight", edge_weight), ("conductance", conductance)):
        if values is not None:
            check_edge_vector(name, values, structure.num_edges)
    csr = structure.csr
    slots = Slots(csr.rowptr, csr.row, csr.col, structure.reverse, structure.column_of_slot)
    entries = normalized_entries(slots, edge_weight, conductance, self_loop, dtype)
    return HeatOperator(SparseOperator(csr, entries), dtype=dtype)
