"""The process group that shares a graph, by `torch.distributed`, and sums of gradients over it."""

import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..._checks import check_instance, check_tensor


class Ranks:
    """A process group; a single process if `torch.distributed` was not started.

    Args:
        group: processes of `torch.distributed`; None: all.

    Raises:
        RuntimeError: if `torchrun` started this process, but it joined no group.
    """

    def __init__(self, group: Any = None) -> None:
        if group is not None:
            kind = getattr(dist, "ProcessGroup", type(None))  # of builds that can distribute
            check_instance("group", group, kind, "a process group of torch.distributed or None")
        self.group = group
        is_alone = not (dist.is_available() and dist.is_initialized())
        if is_alone and int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise RuntimeError(
                "Expected a process group, since the environment has WORLD_SIZE="
                f"{os.environ['WORLD_SIZE']} (got none). To fix this, call "
                "torch.distributed.init_process_group('gloo') first, or 'nccl' on GPUs."
            )
        self.rank = 0 if is_alone else dist.get_rank(group)
        self.size = 1 if is_alone else dist.get_world_size(group)
        if self.rank < 0:
            raise ValueError("Expected 'group' to contain this process (got a group without it).")
        # NCCL moves tensors on a GPU only.
        on_gpu = not is_alone and "nccl" in dist.get_backend(group)
        self.device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else None

    def largest(self, values: Tensor) -> Tensor:
        """Return the largest of each entry over all processes."""
        return self._copy(values, lambda out: dist.all_reduce(out, dist.ReduceOp.MAX, self.group))

    def total(self, values: Tensor) -> Tensor:
        """Return the sum of each entry over all processes."""
        return self._copy(values, lambda out: dist.all_reduce(out, dist.ReduceOp.SUM, self.group))

    def from_first(self, values: Tensor) -> Tensor:
        """Return the values of rank 0; all processes pass a tensor of the same shape and type."""
        first = 0 if self.size == 1 else dist.get_process_group_ranks(self.group)[0]
        return self._copy(values, lambda out: dist.broadcast(out, first, self.group))

    @torch.no_grad()
    def sum_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Add up the gradients of all processes in place; one that is missing counts as zero."""
        for each in parameters:
            if each.requires_grad:
                each.grad = self.total(torch.zeros_like(each) if each.grad is None else each.grad)

    def exchange(self, rows: Tensor, send: Sequence[int], receive: Sequence[int]) -> Tensor:
        """Send rows [sum(send), ...] to the ranks in turn, and return theirs [sum(receive), ...].

        Every process has to take part, also with nothing to send.
        """
        if self.size == 1:
            return rows.clone()
        out = rows.new_empty(sum(receive), *rows.shape[1:])
        self._run(lambda: dist.all_to_all_single(out, rows, list(receive), list(send), self.group))
        return out

    def _copy(self, values: Tensor, communicate: Callable[[Tensor], object]) -> Tensor:
        """Copy some values, and let `communicate` write the result of all processes into it."""
        out = values.detach().to(self.device or values.device, copy=True)
        if self.size > 1 and out.numel():
            self._run(lambda: communicate(out))
        return out.to(values.device)

    def _run(self, communicate: Callable[[], object]) -> None:
        """Communicate.

        Raises:
            RuntimeError: after the time limit of the process group at the latest.
        """
        try:
            communicate()
        except RuntimeError as error:
            raise RuntimeError(
                f"Expected all {self.size} processes to take part (rank {self.rank} waited for one "
                f"that ended or hangs: {str(error).strip().splitlines()[0]}). To fix this, look "
                "for the first error of another rank; torchrun starts all of them again from a "
                "checkpoint."
            ) from error


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
