"""The definition, which autograd and the transforms of `torch.func` can differentiate."""

from torch import Tensor


def dots(a: Tensor, b: Tensor, i: Tensor, j: Tensor) -> Tensor:
    """The product [E] of row i of a [N, C] and row j of b [M, C] for every edge (i, j)."""
    return (a.index_select(0, i) * b.index_select(0, j)).sum(-1)


def sums(g: Tensor, z: Tensor, i: Tensor, j: Tensor, num_rows: int) -> Tensor:
    """The sums [N, C] over the edges to each row i of g [E] times the row j of z."""
    shares = g.unsqueeze(-1) * z.index_select(0, j)
    return z.new_zeros(num_rows, z.size(1)).index_add(0, i, shares)
