"""What blocks share with each other: nodes that have to be fetched."""

import torch
from torch import Tensor

from ..graph import GraphStructure


def halo_sizes(structure: GraphStructure, part: Tensor, num_parts: int) -> Tensor:
    """[P] how many nodes outside of each block are neighbours of one inside."""
    row, col = structure.row.cpu().long(), structure.col.cpu().long()
    of_row = part.index_select(0, row)
    is_cut = of_row != part.index_select(0, col)
    fetched = torch.unique(of_row[is_cut] * structure.num_nodes + col[is_cut])
    return torch.bincount(fetched // max(structure.num_nodes, 1), minlength=num_parts)
