"""A partition: an order of the nodes, cut into blocks."""

from dataclasses import dataclass

import torch
from torch import Tensor

from ..._checks import check_integers


def check_order(name: str, order: Tensor) -> None:
    """Raise a TypeError or ValueError unless `order` [N] holds every node once."""
    check_integers(name, order)
    if order.dim() != 1 or not torch.equal(order.sort()[0], _count(order)):
        raise ValueError(
            f"Expected '{name}' to hold every node from 0 to N - 1 once, of shape [N] "
            f"(got shape {list(order.shape)})."
        )


@dataclass(frozen=True, eq=False)
class Partition:
    """The nodes of a graph in an order in which the nodes of each block stand together.

    Args:
        order: [N] int64, the node that stands at each place.
        ptr: [P + 1] int64, the places where the blocks begin, and N. Blocks may be empty.
        halo: [P] int64, how many nodes outside of each block have neighbours in it; None if
            this was not counted.

    Raises:
        TypeError: if one of them is no tensor of integers.
        ValueError: if `order` is no permutation, or `ptr` does not rise from 0 to N.

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
        for name in ("order", "ptr", *(["halo"] if self.halo is not None else [])):
            check_integers(name, getattr(self, name))
            object.__setattr__(self, name, getattr(self, name).to("cpu", torch.int64))
        check_order("order", self.order)
        ptr = self.ptr
        if ptr.dim() != 1 or ptr.numel() < 2 or ptr[0] != 0 or bool((ptr.diff() < 0).any()):
            raise ValueError(
                "Expected 'ptr' to rise from 0, of shape [P + 1] with P >= 1 "
                f"(got {ptr.tolist() if ptr.numel() < 9 else list(ptr.shape)})."
            )
        if ptr[-1] != self.num_nodes:
            raise ValueError(
                f"Expected 'ptr' to end with the {self.num_nodes} nodes of 'order' "
                f"(got {int(ptr[-1])})."
            )
        if self.halo is not None and self.halo.shape != (self.num_parts,):
            raise ValueError(
                f"Expected 'halo' to have the shape [{self.num_parts}] "
                f"(got {list(self.halo.shape)})."
            )
        if self.halo is not None and bool(((self.halo < 0) | (self.halo > self.num_nodes)).any()):
            raise ValueError(
                f"Expected 'halo' to lie between 0 and the {self.num_nodes} nodes (got "
                f"{int(self.halo.min())} to {int(self.halo.max())})."
            )

    @property
    def num_nodes(self) -> int:
        """The number N of nodes."""
        return self.order.numel()

    @property
    def num_parts(self) -> int:
        """The number P of blocks."""
        return self.ptr.numel() - 1

    @property
    def place(self) -> Tensor:
        """[N] the place of each node: the inverse of `order`."""
        return torch.empty_like(self.order).scatter_(0, self.order, _count(self.order))

    @property
    def part(self) -> Tensor:
        """[N] the block of each node."""
        parts = torch.arange(self.num_parts).repeat_interleave(self.ptr.diff())
        return parts.index_select(0, self.place)

    def parts(self) -> list[Tensor]:
        """The nodes of each block, in their order."""
        return list(self.order.split(self.ptr.diff().tolist()))

    def __repr__(self) -> str:
        return f"Partition(num_nodes={self.num_nodes}, num_parts={self.num_parts})"


def _count(order: Tensor) -> Tensor:
    return torch.arange(order.numel(), dtype=order.dtype, device=order.device)
