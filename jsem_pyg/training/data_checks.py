"""What training asks of a graph and of its labels."""

import torch
from torch import Tensor
from torch_geometric.data import Data

from .._checks import check_choice, check_edge_index, check_finite, check_float


def check_data(data: Data) -> None:
    """Raise unless `data` has finite features `x` [N, D] and a well-formed `edge_index`."""
    fixes = {
        "x": "set data.x to the features [N, D]",
        "edge_index": "build a graph first, for instance with jsem_pyg.transforms.FaissKNNGraph",
    }
    for name, fix in fixes.items():
        if name not in data:
            raise ValueError(
                f"Expected 'data' to have '{name}' (got {data}). To fix this error, {fix}."
            )
    check_float("data.x", data.x)
    if data.x.dim() != 2:
        raise ValueError(f"Expected 'data.x' to have shape [N, D] (got {list(data.x.shape)}).")
    check_finite("data.x", data.x)
    check_edge_index(data.edge_index, data.x.size(0))


def check_has_labels(data: Data) -> None:
    """Raise unless `data` has labels `y`."""
    if "y" not in data:
        raise ValueError(
            f"Expected 'data' to have labels 'y' for sampler='labels' (got {data}). To fix this "
            "error, set data.y, or use sampler='graph', which needs none."
        )


def check_known(y: Tensor, mask: Tensor | None) -> None:
    """Raise unless `y` holds integer classes [N], and `mask`, if given, says which may be used."""
    if not isinstance(y, Tensor) or y.is_floating_point() or y.is_complex():
        got = y.dtype if isinstance(y, Tensor) else type(y).__name__
        raise TypeError(f"Expected 'y' to be an integer tensor of classes (got {got}).")
    if y.dim() != 1:
        raise ValueError(f"Expected 'y' to have shape [N] (got {list(y.shape)}).")
    if mask is None:
        return
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        got = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(f"Expected 'mask' to be a boolean tensor (got {got}).")
    if mask.shape != y.shape:
        raise ValueError(
            f"Expected 'mask' to have shape {list(y.shape)}, as 'y' has (got {list(mask.shape)})."
        )


def known_labels(data: Data, sampler: object) -> Tensor | None:
    """Read `fit`'s argument `sampler`: the labels that may be used, -1 elsewhere, or None.

    Raises:
        TypeError: If labels or mask have the wrong type.
        ValueError: If it is neither "graph" nor "labels", if there are no labels, or a mask of
            another shape.
    """
    if not isinstance(sampler, str):
        raise ValueError(
            "Expected 'sampler' to be 'graph' or 'labels' for self-training, which draws no "
            f"triplets (got {sampler!r})."
        )
    check_choice("sampler", sampler, ("graph", "labels"))
    if sampler == "graph":
        return None
    check_has_labels(data)
    mask = data.get("train_mask")
    check_known(data.y, mask)
    return data.y if mask is None else torch.where(mask, data.y, -1)
