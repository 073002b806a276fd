"""Values of edges, brought into the slots of a graph and checked to be alike in both directions."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._checks import check_edge_vector, check_finite, check_symmetric
from .symmetric_csr import SymmetricCSR

FloatArray = NDArray[np.float64]


def symmetric_values(graph: SymmetricCSR, name: str, values: Tensor) -> FloatArray:
    """The means [E] of both directions, in float64, in the slots, of `values` [E] of the columns.

    Raises:
        TypeError: if `values` is not a floating-point tensor.
        ValueError: if its shape does not fit, or values are not finite, or not the same in both
            directions.
    """
    check_edge_vector(name, values, graph.slot.size)
    check_finite(name, values)
    slots = np.empty(graph.slot.size)
    slots[graph.slot] = values.detach().cpu().double().numpy()
    backward = slots[graph.reverse]
    check_symmetric(name, torch.from_numpy(slots), torch.from_numpy(backward))
    return (slots + backward) / 2


def to_columns(graph: SymmetricCSR, slots: FloatArray, like: Tensor) -> Tensor:
    """Numbers in the slots -> a tensor [E] in the order, and on the device, of `edge_index`."""
    dtype = like.dtype if like.is_floating_point() else torch.get_default_dtype()
    return torch.from_numpy(slots[graph.slot]).to(like.device, dtype)
