"""The halo of blocks, which is their neighbours outside, and the bytes that blocks need."""

import torch
from torch import Tensor

from ...graph import GraphStructure

# Forward and backward pass keep for every row, in tiles of the columns: the last two terms of both
# recurrences, and the gradient or the result. Of a row outside they gather a term of either.
_TILES_OF_A_ROW, _TILES_OF_A_HALO_ROW = 5, 2
# Of every slot: its column in 32 bits, its value and the gradient of that.
_INDEX_BYTES, _NUMBERS_OF_A_SLOT = 4, 2
_POINTER_BYTES = 8


def halo_sizes(structure: GraphStructure, part: Tensor, num_parts: int) -> Tensor:
    """[P] how many nodes outside of each block are neighbours of a node inside."""
    row, col = structure.row.cpu().long(), structure.col.cpu().long()
    of_row = part.index_select(0, row)
    is_cut = of_row != part.index_select(0, col)
    fetched = torch.unique(of_row[is_cut] * structure.num_nodes + col[is_cut])
    return torch.bincount(fetched // max(structure.num_nodes, 1), minlength=num_parts)


def working_sets(
    structure: GraphStructure, part: Tensor, num_parts: int, channels: int, itemsize: int
) -> Tensor:
    """[P] the bytes of each block: rows, halo, edges and all tiles of these."""
    rows = torch.bincount(part, minlength=num_parts)
    slots = torch.bincount(part.index_select(0, structure.row.cpu().long()), minlength=num_parts)
    halo = halo_sizes(structure, part, num_parts)
    tiles = (_TILES_OF_A_ROW * rows + _TILES_OF_A_HALO_ROW * halo) * channels * itemsize
    return tiles + slots * (_INDEX_BYTES + _NUMBERS_OF_A_SLOT * itemsize) + rows * _POINTER_BYTES
