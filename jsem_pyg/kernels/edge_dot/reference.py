"""The definition, which autograd and the transforms of `torch.func` can differentiate."""

from torch import Tensor


def dots(a: Tensor, b: Tensor, i: Tensor, j: Tensor) -> Tensor:
    """The product of two rows for every edge.

    Args:
        a: [N, C] numbers of the nodes at one end.
        b: [M, C] those at the other.
        i: [E] rows of a, int32 or int64.
        j: [E] rows of b, likewise.

    Returns:
        [E] numbers of the type of `a` and `b`.

    Raises:
        IndexError: if an edge names a row that is not there.
    """
    return (a.index_select(0, i) * b.index_select(0, j)).sum(-1)


def sums(g: Tensor, z: Tensor, i: Tensor, j: Tensor, num_rows: int) -> Tensor:
    """The sum over edges, for each row that they lead to, of the row that they come from.

    Args:
        g: [E] the weight of each edge.
        z: [M, C] rows.
        i: [E] the target row of each edge.
        j: [E] the row of z that it comes from.
        num_rows: N.

    Returns:
        [N, C] numbers of the type of `z`.

    Raises:
        IndexError, RuntimeError: if an edge names a row that is not there.
    """
    shares = g.unsqueeze(-1) * z.index_select(0, j)
    return z.new_zeros(num_rows, z.size(1)).index_add(0, i, shares)
