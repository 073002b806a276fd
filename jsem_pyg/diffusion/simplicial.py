"""Diffuse heat on the edges of a graph: flows that the Hodge Laplacian smooths out."""

from functools import partial
from typing import Any

from torch import Tensor

from .._checks import check_edge_vector, check_vector, check_weight_range, numbers_of
from ..graph.reader import GraphReader
from ..graph.simplicial_structure import SimplicialStructure
from ..kernels.torch_func import compute_dtype, full_precision
from ..operators.hodge import hodge_operator
from .evolve import SpectralFunction, choose_dtype, evolve
from .options import HeatOptions
from .times import Times

# A structure, and the weights of its edges [M] and triangles [F]; None: not given.
WeightedComplex = tuple[SimplicialStructure, Tensor | None, Tensor | None]


def read_complex(
    reader: GraphReader,
    edge_index: Any,
    x: Tensor,
    triangles: Tensor | None,
    edge_weight: Tensor | None,
    triangle_weight: Tensor | None,
) -> WeightedComplex:
    """Prepare or recall the complex of flows x, and check what comes with it."""
    given = (edge_index,) if triangles is None else (edge_index, triangles)
    structure = reader.recall(given, lambda: SimplicialStructure(*given))
    if x.size(-2) != structure.num_edges:
        raise ValueError(
            f"Expected 'x' to have shape [..., {structure.num_edges}, D], a row for each column of "
            f"'edge_index' (got {list(x.shape)})."
        )
    reader.check_signal(structure, x)
    if edge_weight is not None:
        check_edge_vector("edge_weight", edge_weight, structure.num_edges)
        reader.check(structure, "edge_weight", edge_weight, _check_edge_weight)
        edge_weight = structure.weight_of_edges(edge_weight)
    if triangle_weight is not None:
        check_vector("triangle_weight", triangle_weight, structure.num_triangles, "triangle")
        check = partial(check_weight_range, "triangle_weight")
        reader.check(structure, "triangle_weight", triangle_weight, check)
    return structure, edge_weight, triangle_weight


def _check_edge_weight(edge_weight: Tensor) -> None:
    """Raise unless weights are positive, and in the supported range."""
    check_weight_range("edge_weight", edge_weight)
    if bool((numbers_of(edge_weight) == 0).any()):
        raise ValueError(
            "Expected 'edge_weight' to be positive (got zeros). To fix this, leave out the edges "
            "of no weight."
        )


def simplicial_heat(
    x: Tensor,
    weighted: WeightedComplex,
    times: SpectralFunction,
    t_up: SpectralFunction,
    options: HeatOptions,
) -> Tensor:
    """Diffuse or filter [..., E, D] on edges -> [..., S, E, D]."""
    structure, edge_weight, triangle_weight = weighted

    def heat(part: str, t: SpectralFunction) -> Tensor:
        given = structure, part, edge_weight, triangle_weight, options.backend
        operator = hodge_operator(*given, compute_dtype(x))
        precise = choose_dtype(x.dtype, x.device, t.slope(operator.rate), options.tol)
        if precise != operator.dtype:
            operator = hodge_operator(*given, precise)
        return evolve(flow, operator, t, options)

    with full_precision(x.device):
        flow = structure.to_edges(x.to(compute_dtype(x)))
        out = heat("down", times)
        if structure.num_triangles:
            # The product of both parts of the Laplacian is zero: so is that of what they change.
            kept = times.at_zero().to(flow).reshape(-1, 1, 1) * flow.unsqueeze(-3)
            out = out + heat("up", t_up) - kept
        else:
            up = [t_up.value] if isinstance(t_up, Times) else []
            for unused in (*up, edge_weight, triangle_weight):  # a gradient, if only of zero
                out = out if unused is None else out + (0 * unused.sum()).to(out)
        return structure.to_columns(out).to(x.dtype)
