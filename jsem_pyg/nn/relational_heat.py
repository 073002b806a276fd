"""A graph with relations, prepared for a heat equation of each relation."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ..diffusion.evolve import evolve
from ..diffusion.options import HeatOptions
from ..diffusion.times import read_times
from ..graph.memory import Prepared
from ..graph.relations import EdgeType, HeteroGraph
from ..graph.structure import GraphStructure
from ..operators.laplacian import laplacian_operator


class RelationalGraph(Prepared):
    """The operator of each relation, on the nodes of its two types.

    Args:
        edges: [2, E] for each edge type.
        weights: [E] for the edge types that have any.
        num_nodes: of each node type.
        edge_types: all types, in the order of their relations.
        options: how edges become an operator, and how precise a series is.
        dtype: of the operators.
    """

    def __init__(
        self,
        edges: Mapping[EdgeType, Tensor],
        weights: Mapping[EdgeType, Tensor],
        num_nodes: Mapping[str, int],
        edge_types: Sequence[EdgeType],
        options: HeatOptions,
        dtype: torch.dtype,
    ) -> None:
        graph = HeteroGraph(edges, num_nodes, edge_types, options.self_loop > 0)
        weight = graph.pair_weight(weights)
        self.options, self.device = options, weight.device
        self.types = [list(dict.fromkeys((a, b))) for a, _, b in graph.relations]
        self.operators = []
        for number, types in enumerate(self.types):
            row = weight.new_empty(graph.num_nodes, dtype=torch.int64)  # of nodes, in this relation
            size = 0
            for name in types:
                last = size + num_nodes[name]
                row[graph.rows[name]] = torch.arange(size, last, device=self.device)
                size = last
            here = graph.pairs.relation == number
            source, target = row[graph.pairs.source[here]], row[graph.pairs.target[here]]
            both = torch.stack([torch.cat([source, target]), torch.cat([target, source])])
            self.operators.append(
                laplacian_operator(
                    GraphStructure(both, size),
                    weight[here].repeat(2),
                    options.normalization,
                    backend=options.backend,
                    self_loop=options.self_loop,
                    dtype=dtype,
                )
            )

    def diffuse(
        self, x_dict: Mapping[str, Tensor], theta: Tensor, t: Tensor, from_neighbors: bool
    ) -> dict[str, Tensor]:
        """Sum exp(-t_r L_r) X Theta_r over the relations: [N, D] for each node type.

        Args:
            x_dict: the features [N, C] of each node type.
            theta: [R, C, D] a matrix for each relation.
            t: [R] diffusion times.
            from_neighbors: multiply by I - L_r, so that heat starts at the neighbours.
        """
        out = {name: x.new_zeros(len(x), theta.size(-1)) for name, x in x_dict.items()}
        t = t.to("cpu", torch.float64)  # a GPU waits once, not for every relation
        for number, types in enumerate(self.types):
            mapped = torch.cat([x_dict[name] @ theta[number] for name in types])
            # The backward pass diffuses anew, so that no relation keeps its terms until then.
            heat = checkpoint(self._heat, mapped, number, t, from_neighbors, use_reentrant=False)
            parts = heat.split([len(x_dict[name]) for name in types])
            for name, part in zip(types, parts, strict=True):
                out[name] = out[name] + part
        return out

    def _heat(self, x: Tensor, number: int, t: Tensor, from_neighbors: bool) -> Tensor:
        """Diffuse [N, D] along one relation."""
        times = read_times(t[number], x.size(-1))
        operator = self.operators[number]
        heat = evolve(x, operator, times, self.options).squeeze(0)
        if from_neighbors:
            heat = heat - operator.apply_laplacian(heat) / operator.rate
        return heat
