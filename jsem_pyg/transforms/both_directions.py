"""A PyG transform: a directed graph becomes undirected and keeps what its directions said."""

import torch
from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from .._checks import check_bool, check_edge_index, check_edge_type, check_edge_weight, check_rows
from ..graph.relations import read_pairs
from ._batch import check_single


@functional_transform("both_directions")
class BothDirections(BaseTransform):
    r"""Adds the reverse of every directed edge, and marks the edges that had one direction.

    As :class:`torch_geometric.transforms.ToUndirected`, but layers can still learn from the
    directions. With the weights of both directions, zero for one that is not there,

    .. math::
        w_{ij} = \mathrm{mean}(w_{i \to j}, w_{j \to i}), \qquad a_{ij} =
        \frac{|w_{i \to j} - w_{j \to i}|}{w_{i \to j} + w_{j \to i}}

    where the mean is over the directions that are there. A conductance is the same from both ends:
    it can learn how far to trust one-way edges, and not that heat flows along the arrow only.

    Reads `edge_index`, and `edge_weight` and `edge_attr` if they are there. Writes `edge_index`,
    `edge_weight`, the imbalance :math:`a_{ij}` in [0, 1] as a last column of `edge_attr` [E, F + 1]
    (other columns are means, too), and `edge_type` [E], 1 for edges of one direction and 0 for
    others, for layers with ``num_relations=2``. Where `data` has R types of edges already, every
    edge keeps its own, also on its way back; or each type becomes two, as :math:`2 r` and
    :math:`2 r + 1`, for layers with ``num_relations=2 * R``. Edges of different types between two
    nodes stay apart. Self-loops are left out. A mini-batch is refused.

    Args:
        keep_types: whether the types of edges stay as they are; otherwise, one-way edges of a type
            and its other edges become two types.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 1], [1, 0, 2]])
        >>> data = BothDirections()(Data(edge_index=edge_index, num_nodes=3))
        >>> data.edge_index.tolist()
        [[0, 1, 1, 2], [1, 2, 0, 1]]
        >>> data.edge_type.tolist()
        [0, 1, 0, 1]
    """

    def __init__(self, keep_types: bool = True) -> None:
        check_bool("keep_types", keep_types)
        self.keep_types = keep_types

    def forward(self, data: Data) -> Data:
        """Change the edges of `data`; `__call__` has copied it."""
        check_single(data)
        size = data.num_nodes or 0
        check_edge_index(data.edge_index, size)
        source, target = data.edge_index.long()
        low, high = torch.minimum(source, target), torch.maximum(source, target)
        edge_type = data.get("edge_type")
        if edge_type is not None:
            check_edge_type(edge_type, len(source))
        relation = torch.zeros_like(source) if edge_type is None else edge_type.long()
        pairs = read_pairs(low, high, relation, max(size, 1), source > target)
        weight, attr = data.get("edge_weight"), data.get("edge_attr")
        if weight is None:
            weight = torch.ones(len(source), device=source.device)
        check_edge_weight(weight, len(source))
        ways = pairs.forms(weight)[:, :2]
        imbalance = (ways[:, 0] - ways[:, 1]).abs() / ways.sum(1).clamp(min=1e-30)
        columns = imbalance[:, None]
        if attr is not None:
            check_rows("data.edge_attr", attr, len(source), "edge")
            attr = attr[:, None] if attr.dim() == 1 else attr
            count = pairs.forms(torch.ones_like(attr[:, :1])).sum(1)
            columns = torch.cat([pairs.forms(attr).sum(1) / count, columns.to(attr)], 1)
        is_one_way = (pairs.forms(torch.ones_like(weight))[:, :2] == 0).any(1)
        ends = [torch.cat(each) for each in (pairs[1:3], pairs[2:0:-1])]
        data.edge_index = torch.stack(ends)
        data.edge_weight = pairs.weigh(weight).repeat(2)
        data.edge_attr = columns.repeat(2, 1)
        keeps = self.keep_types and edge_type is not None
        found = pairs.relation if keeps else 2 * pairs.relation + is_one_way
        data.edge_type = found.repeat(2)
        return data
