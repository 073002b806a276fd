"""Known labels: what they have to be, and the probabilities that follow from them."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .._checks import check_dense, check_labels, check_tensor


def check_mask(name: str, mask: Any, shape: tuple[int, ...], what: str) -> None:
    """Raise unless `mask` is a boolean tensor of a shape, one entry for each of `what`."""
    check_tensor(name, mask, "a boolean tensor")
    check_dense(name, mask)
    if mask.dtype != torch.bool:
        raise TypeError(f"Expected '{name}' to be a boolean tensor (got {mask.dtype}).")
    if mask.shape != shape:
        raise ValueError(
            f"Expected '{name}' to have shape {list(shape)}, one entry for each of the {what} "
            f"(got {list(mask.shape)})."
        )


def check_known_classes(labels: Tensor, num_nodes: int, num_classes: int | None = None) -> int:
    """The number of classes in labels [N], -1 where unknown; raise unless each names a node."""
    check_labels("labels", labels, num_nodes)
    lowest = int(labels.min()) if labels.numel() else -1
    if lowest < -1:
        raise ValueError(
            f"Expected 'labels' to hold classes from 0 on, and -1 where unknown (got {lowest}). To "
            "fix this error, use -1 for every unknown label, as in labels.clamp(min=-1)."
        )
    known = labels[labels >= 0].unique()
    if num_classes is None:
        num_classes = int(known.max()) + 1 if known.numel() else 0
    if num_classes == 0:
        raise ValueError("Expected 'labels' to name a node of a class (got none that is known).")
    if not torch.equal(known.cpu(), torch.arange(num_classes)):
        raise ValueError(
            f"Expected 'labels' to name a node of each class 0 to {num_classes - 1} (got "
            f"{known.tolist()})."
        )
    return num_classes


def keep_known(q: Tensor, labels: Tensor | None) -> Tensor:
    """Probabilities [N, C], one or zero where a label [N] is known (not -1)."""
    if labels is None:
        return q
    certain = F.one_hot(labels.clamp(min=0), q.size(-1)).to(q)
    return torch.where((labels >= 0)[:, None], certain, q)
