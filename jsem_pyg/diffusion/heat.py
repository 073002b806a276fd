"""A graph, its weights and conductances -> its operator, in the type that it needs."""

from collections.abc import Callable

import torch
from torch import Tensor

from .._precision import compute_dtype
from ..graph.memory import Memory
from ..graph.rows import GraphRows
from ..kernels.torch_func import is_transformed, lasting
from ..operators import HeatOperator, laplacian_operator
from .options import HeatOptions
from .precision import precise_operator


def heat_operator(
    structure: GraphRows,
    edge_weight: Tensor | None,
    x: Tensor,
    longest: float,
    options: HeatOptions,
    conductance: Tensor | None = None,
    make: Callable[..., HeatOperator] = laplacian_operator,
    memory: Memory | None = None,
) -> HeatOperator:
    """Make the operator of the weights of a graph times the conductances, for signals like x.

    Args:
        structure: the graph, or the rows of it that this process has.
        edge_weight: [E], checked; None: ones.
        x: the signal.
        longest: the longest time, which decides how precise the operator has to be.
        options: how it is computed.
        conductance: [E] or None.
        make: what makes it.
        memory: where an operator without learned values is remembered from call to call.
    """

    def make_in(
        dtype: torch.dtype, weight: Tensor | None, conductance: Tensor | None
    ) -> HeatOperator:
        return make(
            structure,
            weight,
            options.normalization,
            conductance,
            options.backend,
            options.self_loop,
            dtype,
        )

    def recall(dtype: torch.dtype, weight: Tensor | None, _: None) -> HeatOperator:
        assert memory is not None
        given, context = () if weight is None else (weight,), (structure, options, dtype, x.device)
        return memory.recall(given, lambda: lasting(make_in)(dtype, weight, None), *context)

    is_constant = conductance is None and (edge_weight is None or not edge_weight.requires_grad)
    is_constant = is_constant and x.device.type == "cpu"  # where comparing weights does not wait
    remembers = memory is not None and is_constant and structure.can_remember
    how = recall if remembers and not is_transformed() else make_in
    return precise_operator(how, x, longest, options, edge_weight, conductance)


def default_dtype(edge_weight: Tensor | None) -> torch.dtype:
    """The type to compute in where there is no signal: that of the weights, or torch's default."""
    return torch.get_default_dtype() if edge_weight is None else compute_dtype(edge_weight)
