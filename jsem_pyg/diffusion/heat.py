"""A graph, its weights and conductances -> its operator, in the type that it needs."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ..graph.memory import Memory
from ..graph.rows import GraphRows
from ..kernels.torch_func import has_forward_derivative, is_transformed, lasting
from ..operators import HeatOperator, laplacian_operator
from .options import HeatOptions
from .precision import precise_operator


def heat_operator(
    structure: GraphRows,
    edge_weight: Tensor | None,
    x: Tensor,
    reach: Callable[[float], float],
    options: HeatOptions,
    conductance: Tensor | None = None,
    make: Callable[..., HeatOperator] = laplacian_operator,
    memory: Memory | None = None,
) -> HeatOperator:
    """Make the operator of weights [E] times conductances [E], for signals like x.

    `reach`, called with a rate, is the longest time in units of it, which decides how precise the
    operator has to be. Where there is a memory, an operator without learned values is remembered
    from call to call.
    """
    make = partial(
        make,
        structure,
        normalization=options.normalization,
        backend=options.backend,
        self_loop=options.self_loop,
    )
    is_learned = edge_weight is not None and (
        edge_weight.requires_grad or has_forward_derivative(edge_weight)
    )
    is_constant = conductance is None and not is_learned
    is_constant = is_constant and x.device.type == "cpu"  # where comparing weights does not wait
    if memory is not None and is_constant and structure.can_remember and not is_transformed():
        make = partial(_recall, memory, make, (structure, options, x.device))
    weights = {"edge_weight": edge_weight, "conductance": conductance}
    return precise_operator(make, x, reach, options, **weights)


def _recall(
    memory: Memory,
    make: Callable[..., HeatOperator],
    context: tuple[Any, ...],
    edge_weight: Tensor | None,
    conductance: None,
    dtype: torch.dtype,
) -> HeatOperator:
    given = () if edge_weight is None else (edge_weight,)
    again = partial(lasting(make), edge_weight=edge_weight, dtype=dtype)
    return memory.recall(given, again, dtype, *context)
