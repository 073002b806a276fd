"""Triplets from labels, few or many."""

import torch
from torch import Tensor

from .._checks import check_labels
from .._groups import group_starts
from .training_graph import check_mask
from .triplets import Triplets, check_draw


class LabelTriplets:
    """Triplets from labels, few or many: the positive shares the anchor's class.

    The anchor is uniform over the labelled nodes whose class has at least two of them, the
    positive uniform over the other labelled nodes of its class, the negative uniform over the
    labelled nodes of all other classes. Draws are exact, without rejection.

    Args:
        y: Class of each node; a negative entry means that the label is unknown. Shape [N].
        mask: Nodes whose label may be used; all if omitted. Boolean, shape [N].

    Raises:
        TypeError: If `y` is no integer tensor or `mask` no boolean one.
        ValueError: If shapes disagree, if the labelled nodes are of fewer than two classes, or
            if no class has two labelled nodes.

    Example:
        >>> y = torch.tensor([0, 0, 1, -1])
        >>> triplets = LabelTriplets(y).sample(3)
        >>> triplets.negative  # node 2 is alone in its class, node 3 unlabelled
        tensor([2, 2, 2])
    """

    def __init__(self, y: Tensor, mask: Tensor | None = None) -> None:
        check_labels("y", y)
        if mask is not None:
            check_mask("mask", mask, tuple(y.shape), "nodes")
        y = y.detach().cpu().long()
        usable = y >= 0 if mask is None else (y >= 0) & mask.detach().cpu()
        labelled = torch.nonzero(usable).flatten()
        order = torch.argsort(y[labelled], stable=True)
        self._node = labelled[order]  # labelled nodes, class by class
        _, class_of, counts = torch.unique_consecutive(
            y[self._node], return_inverse=True, return_counts=True
        )
        self._count = counts[class_of]
        self._start = group_starts(class_of, counts.numel())[class_of]
        self._anchors = torch.nonzero(self._count > 1).flatten()  # positions in _node

        if counts.numel() < 2:
            raise ValueError(
                "Expected labelled nodes of at least two classes, since a negative is a node of "
                f"another class (got {labelled.numel()} labelled nodes of {counts.numel()} "
                "classes)."
            )
        if self._anchors.numel() == 0:
            raise ValueError(
                "Expected a class with at least two labelled nodes, since a positive is another "
                f"node of the anchor's class (got {counts.numel()} classes with one node each)."
            )

    def sample(self, num_triplets: int, generator: torch.Generator | None = None) -> Triplets:
        """Draw triplets independently of each other, with replacement.

        Args:
            num_triplets: Number of triplets M.
            generator: Source of the randomness, on the CPU; torch's own if omitted.

        Returns:
            M triplets, on the CPU.
        """
        check_draw(num_triplets, generator)
        at = self._anchors[_draw_below(self._anchors.numel(), num_triplets, generator)]
        start, count = self._start[at], self._count[at]
        # Uniform over the class without the anchor: skip over it; likewise over the class.
        same = start + _draw_below(count - 1, num_triplets, generator)
        same = same + (same >= at)
        other = _draw_below(self._node.numel() - count, num_triplets, generator)
        other = torch.where(other >= start, other + count, other)
        return Triplets(self._node[at], self._node[same], self._node[other])

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(num_labelled={self._node.numel()}, "
            f"num_anchors={self._anchors.numel()})"
        )


def _draw_below(bound: int | Tensor, size: int, generator: torch.Generator | None) -> Tensor:
    """Draw `size` integers uniformly from [0, bound), each with a bound of its own if given [size].

    In float64, u < 1 implies that u * bound rounds to less than bound, so no clamp is needed.
    """
    u = torch.rand(size, dtype=torch.float64, generator=generator)
    return (u * bound).long()
