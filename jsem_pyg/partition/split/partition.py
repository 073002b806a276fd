"""A partition: an order of the nodes, cut into blocks."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..._checks import check_integers


@dataclass(frozen=True, eq=False)
class Partition:
    """Holds the blocks of a graph: an order of its nodes, and where each block begins.

    Args:
        order: [N] int64, the node that stands at each place.
        ptr: [P + 1] int64, the places where the blocks begin, and N. Blocks may be empty.
        halo: [P] int64, how many nodes outside of each block have neighbours in it, if known.

    Example:
        >>> partition = Partition(torch.tensor([2, 0, 1]), torch.tensor([0, 1, 3]))
        >>> partition.parts()
        [tensor([2]), tensor([0, 1])]
        >>> partition.part
        tensor([1, 1, 0])
    """

    order: Tensor
    ptr: Tensor
    halo: Tensor | None = None

    def __post_init__(self) -> None:
        for name in ("order", "ptr"):
            value = getattr(self, name)
            check_integers(name, value)
            object.__setattr__(self, name, value.to("cpu", torch.int64))
        order, ptr = self.order, self.ptr
        if order.dim() != 1 or not torch.equal(order.sort()[0], torch.arange(order.numel())):
            raise ValueError(f"Expected 'order' to hold every node once (got {list(order.shape)}).")
        if ptr.dim() != 1 or ptr.numel() < 2 or ptr[0] != 0 or bool((ptr.diff() < 0).any()):
            raise ValueError(
                "Expected 'ptr' to rise from 0, of shape [P + 1] with P >= 1 "
                f"(got {ptr.tolist() if ptr.numel() < 9 else list(ptr.shape)})."
            )
        if ptr[-1] != self.num_nodes:
            raise ValueError(f"Expected 'ptr' to end at {self.num_nodes} (got {int(ptr[-1])}).")

    @property
    def num_nodes(self) -> int:
        """Count the nodes: N."""
        return self.order.numel()

    @property
    def num_parts(self) -> int:
        """Count the blocks: P."""
        return self.ptr.numel() - 1

    @property
    def place(self) -> Tensor:
        """Find the place of each node: [N], the inverse of `order`."""
        return self.order.argsort()

    @property
    def part(self) -> Tensor:
        """Find the block of each node: [N]."""
        parts = torch.arange(self.num_parts).repeat_interleave(self.ptr.diff())
        return parts.index_select(0, self.place)

    def parts(self) -> list[Tensor]:
        """List the nodes of each block, in their order."""
        return list(self.order.split(self.ptr.diff().tolist()))

    def __repr__(self) -> str:
        return f"Partition(num_nodes={self.num_nodes}, num_parts={self.num_parts})"
