"""Bisection along the levels of a breadth-first search: no package needed beyond SciPy."""

from ...kernels.ordering import cuthill_mckee
from .block import Array, Block, cut


def split(block: Block, share: float) -> Array:
    """See :data:`.block.Splitter`: what comes first in reverse Cuthill-McKee order."""
    return cut(cuthill_mckee(block.adjacency), block.cost, share)
