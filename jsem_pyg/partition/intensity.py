"""What the rows of a block cost, and how much of it a split can take away."""

from torch import Tensor

from ..graph import GraphStructure
from .splitters import Array

# Of every number of a row and term, beside a multiplication and an addition for each neighbour: the
# term before is subtracted, and the sum of the series goes on.
_OPERATIONS_OF_A_ROW = 4


def counted_cost(structure: GraphStructure, channels: int = 1) -> Tensor:
    """[N] float64, the operations of each row in one term of a series."""
    degree = structure.csr.degree.cpu().double()
    return channels * (2 * degree + _OPERATIONS_OF_A_ROW)


def intensity(cost: Array) -> float:
    """What the rows of a block cost, but for the costliest one, which no split makes cheaper."""
    return float(cost.sum() - cost.max())
