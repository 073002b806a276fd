"""Features of nodes that random relational convolutions give, to train on without the graph."""

from collections.abc import Mapping

import torch
from torch import Tensor
from torch_geometric.nn.dense.linear import Linear

from .._checks import check_instance, check_nonnegative_int, check_positive_int
from .._precision import center_and_normalize
from ..graph.relations import EdgeType, check_dictionaries
from .hetero_cheb_conv import HeteroChebConv


@torch.no_grad()
def relational_features(
    x_dict: Mapping[str, Tensor],
    edge_index_dict: Mapping[EdgeType, Tensor],
    edge_weight_dict: Mapping[EdgeType, Tensor] | None = None,
    *,
    dim: int = 64,
    hops: int = 2,
    t: float = 2.0,
    seed: int = 0,
) -> dict[str, Tensor]:
    r"""Compute features of nodes: random projections, diffused along every relation.

    In place of the matrices of a :class:`~jsem_pyg.nn.HeteroChebConv` there are random ones,
    so that a hop is a random projection of what all relations give (Hu et al. 2024, "Efficient
    heterogeneous graph learning via random projection"). Any model of single nodes trains on the
    result in mini-batches; no gradient flows through the graph.

    Args:
        x_dict: [N, F] features of every node type; random numbers will do for types without any.
        edge_index_dict: [2, E] the edges of every type, in one direction or both.
        edge_weight_dict: [E] their weights; ones if omitted.
        dim: the number D of columns of a projection.
        hops: the number H of convolutions.
        t: diffusion time > 0 of a hop, the same for all relations.
        seed: of the projections.

    Returns:
        For every node type [N, (H + 1) D]: D columns of the projected features, then D of every
        hop. Every D columns are centred, then rows brought to length one.

    Example:
        >>> x_dict = {"author": torch.eye(2), "paper": torch.randn(3, 5)}
        >>> edges = {("author", "writes", "paper"): torch.tensor([[0, 1, 1], [0, 1, 2]])}
        >>> relational_features(x_dict, edges, dim=8)["author"].shape
        torch.Size([2, 24])
    """
    check_instance("x_dict", x_dict, Mapping, "a dictionary from node types to features")
    ends = [end for a, _, b in edge_index_dict for end in (a, b)]
    check_dictionaries(x_dict, edge_index_dict, [*dict.fromkeys([*x_dict, *ends])])
    check_positive_int("dim", dim)
    check_nonnegative_int("hops", hops)
    widths = {name: x.size(-1) for name, x in x_dict.items()}
    like = next(iter(x_dict.values()))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        maps = {name: Linear(width, dim, bias=False).to(like) for name, width in widths.items()}
        metadata = list(x_dict), list(edge_index_dict)
        conv = HeteroChebConv(dim, dim, metadata, t, learn_t=False, bias=False).to(like)
        found = [{name: maps[name](x) for name, x in x_dict.items()}]
        for _ in range(hops):
            x_dict = {name: center_and_normalize(x) for name, x in found[-1].items()}
            conv.reset_parameters()
            found.append(conv(x_dict, edge_index_dict, edge_weight_dict))
    return {
        name: torch.cat([center_and_normalize(each[name]) for each in found], -1) for name in widths
    }
