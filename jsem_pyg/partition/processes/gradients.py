"""Gradients of parameters of which every process has a copy."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from ..._checks import check_tensor
from .ranks import Ranks


@torch.no_grad()
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
        >>> t = torch.tensor(1.0, requires_grad=True)
        >>> (2 * t).backward()
        >>> sum_gradients([t])
        >>> t.grad
        tensor(2.)
    """
    ranks = Ranks(group)
    for each in [parameters] if isinstance(parameters, Tensor) else parameters:
        check_tensor("parameters", each)
        if each.requires_grad:
            each.grad = ranks.total(torch.zeros_like(each) if each.grad is None else each.grad)
