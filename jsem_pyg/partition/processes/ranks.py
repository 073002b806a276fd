"""The process group that shares a graph, by `torch.distributed`.

Where a process ends or hangs, the others would raise an error about a connection. Here they call
the roll before they end, so that the error names the ranks that are missing.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ..._checks import check_instance

# How long a process that noticed a failure waits for others to notice it too.
_ROLL_CALL = timedelta(seconds=5)


class Ranks:
    """A process group; a single process if `torch.distributed` was not started.

    Raises:
        TypeError: if `group` is none.
        ValueError: if this process is not in it.
        RuntimeError: if `torchrun` started this process, but it joined no group.
    """

    def __init__(self, group: Any = None) -> None:
        if group is not None:
            kind = getattr(dist, "ProcessGroup", type(None))  # of builds that can distribute
            check_instance("group", group, kind, "a process group of torch.distributed or None")
        self.group = group
        self.is_alone = not (dist.is_available() and dist.is_initialized())
        if self.is_alone and int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise RuntimeError(
                "Expected a process group, since the environment has WORLD_SIZE="
                f"{os.environ['WORLD_SIZE']} (got none). To fix this, call "
                "torch.distributed.init_process_group('gloo') first, or 'nccl' on GPUs."
            )
        self.rank = 0 if self.is_alone else dist.get_rank(group)
        self.size = 1 if self.is_alone else dist.get_world_size(group)
        if self.rank < 0:
            raise ValueError("Expected 'group' to contain this process (got a group without it).")
        # NCCL moves tensors on a GPU only.
        on_gpu = not self.is_alone and "nccl" in dist.get_backend(group)
        self.device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else None
        self._failures = 0

    def largest(self, values: Tensor) -> Tensor:
        """The largest of each entry over all processes."""
        return self._reduce(values, "MAX")

    def total(self, values: Tensor) -> Tensor:
        """The sum of each entry over all processes."""
        return self._reduce(values, "SUM")

    def from_first(self, values: Tensor) -> Tensor:
        """The values of rank 0, for a tensor of the same shape and type in every process."""
        first = 0 if self.is_alone else self._global_ranks()[0]
        return self._communicate(
            values, "a broadcast", lambda out: dist.broadcast(out, first, group=self.group)
        )

    def exchange(self, rows: Tensor, send: Sequence[int], receive: Sequence[int]) -> "Pending":
        """Start to send rows [sum(send), ...] to the ranks in turn, and to receive theirs.

        Every process has to take part, also with nothing to send.
        """
        out = rows.new_empty(sum(receive), *rows.shape[1:])
        if self.size == 1:
            return Pending(self, rows, out.copy_(rows), None)
        with self.roll_call("an exchange of rows"):
            work = dist.all_to_all_single(
                out, rows, list(receive), list(send), group=self.group, async_op=True
            )
        return Pending(self, rows, out, work)

    def _reduce(self, values: Tensor, operation: str) -> Tensor:
        def reduce(out: Tensor) -> None:
            dist.all_reduce(out, getattr(dist.ReduceOp, operation), group=self.group)

        return self._communicate(values, "a reduction", reduce)

    def _communicate(self, values: Tensor, what: str, run: Callable[[Tensor], object]) -> Tensor:
        """A copy of some values, into which `run` has written the result of all processes."""
        out = values.detach().to(self.device or values.device, copy=True)
        if self.size > 1 and out.numel():
            with self.roll_call(what):
                run(out)
        return out.to(values.device)

    def _global_ranks(self) -> list[int]:
        return dist.get_process_group_ranks(self.group or dist.group.WORLD)

    @contextmanager
    def roll_call(self, what: str) -> Iterator[None]:
        """Errors of a communication become errors that name the ranks which are missing.

        Raises:
            RuntimeError: after the time limit of the process group at the latest.
        """
        try:
            yield
        except RuntimeError as error:
            missing = self._missing()
            why = str(error).strip().splitlines()[0]
            who = f"rank {', '.join(map(str, missing))}" if missing else "a rank that is late"
            raise RuntimeError(
                f"Expected all {self.size} processes to take part in {what} (rank {self.rank} "
                f"waited for {who}, which ended or hangs: {why}). To fix this, look for the first "
                "error of that rank; torchrun starts all of them again from a checkpoint."
            ) from error

    def _missing(self) -> list[int]:
        """The ranks that do not answer, by the store through which the processes met."""
        from torch.distributed import distributed_c10d

        self._failures += 1
        store, ranks = distributed_c10d._get_default_store(), self._global_ranks()
        keys = {each: f"jsem_pyg/roll_call/{self._failures}/{each}" for each in ranks}
        try:
            store.set(keys[ranks[self.rank]], "here")
            with suppress(RuntimeError):  # some did not come: which ones is found below
                store.wait(list(keys.values()), _ROLL_CALL)
            return [at for at, each in enumerate(ranks) if not store.check([keys[each]])]
        except RuntimeError:
            return [0]  # which holds the store, unless torchrun does


class Pending:
    """Rows that are being exchanged."""

    def __init__(self, ranks: Ranks, sent: Tensor, out: Tensor, work: Any) -> None:
        self._ranks, self._sent, self._out, self._work = ranks, sent, out, work

    def wait(self) -> Tensor:
        """The rows, once they are here."""
        if self._work is not None:
            with self._ranks.roll_call("an exchange of rows"):
                self._work.wait()
            self._work = None
        return self._out
