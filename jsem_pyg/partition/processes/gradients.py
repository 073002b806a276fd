"""Gradients of parameters of which every process has a copy."""

from collections.abc import Iterable
from typing import Any

from torch import Tensor

from ..._checks import check_tensor
from .ranks import Ranks


def sum_gradients(parameters: Iterable[Tensor] | Tensor, *, group: Any = None) -> None:
    """Add up the gradients that the processes have of the same parameters, in place.

    Each process has the share of the gradients that came through its rows, for the sum of all
    losses. After this, all processes have the whole gradient, bit for bit the same, so that equal
    optimisers make equal steps from equal weights. A loss that is a mean over nodes is the sum over
    the nodes of this process, divided by the number of all nodes.

    Args:
        parameters: Tensors of which every process has a copy, in the same order: those of a model,
            or a time. Weights and features of edges are no copies where processes share the rows
            of a graph: their gradients are complete there, and are not passed. Where each process
            diffuses some columns of x on the whole graph, they are copies, and are passed as well.
            One without a gradient counts as zero.
        group: Processes of `torch.distributed`; None: all.

    Raises:
        RuntimeError: If another process ended or hangs.

    Example:
        >>> import torch
        >>> t = torch.tensor(1.0, requires_grad=True)
        >>> (2 * t).backward()
        >>> sum_gradients([t])
        >>> t.grad
        tensor(2.)
    """
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    for each in parameters:
        check_tensor("parameters", each)
    Ranks(group).sum_gradients(parameters)
