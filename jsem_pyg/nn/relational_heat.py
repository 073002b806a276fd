"""A graph with relations, prepared for a heat equation of each relation."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..diffusion.evolve import evolve
from ..diffusion.options import HeatOptions
from ..diffusion.times import read_times
from ..graph.memory import Prepared
from ..graph.relations import Pairs
from ..graph.structure import GraphStructure
from ..operators.laplacian import laplacian_operator


class RelationalGraph(Prepared):
    """The relations of a graph as graphs of their own, with both directions of every edge.

    Args:
        pairs: the undirected edges of all relations.
        weight: [P] their weights.
        rows: the rows [N] of each node type, a slice; ascending.
        members: for each relation, the numbers of the node types that take part in it, ascending.
        options: how edges become an operator.
        dtype: of the operators.
    """

    def __init__(
        self,
        pairs: Pairs,
        weight: Tensor,
        rows: Sequence[slice],
        members: Sequence[Sequence[int]],
        options: HeatOptions,
        dtype: torch.dtype,
    ) -> None:
        self.members, self.options, self.device = members, options, weight.device
        self.operators = []
        for relation, types in enumerate(members):
            local = weight.new_empty(rows[-1].stop, dtype=torch.int64)  # rows in this relation
            size = 0
            for number in types:
                count = rows[number].stop - rows[number].start
                local[rows[number]] = torch.arange(size, size + count, device=self.device)
                size += count
            here = pairs.relation == relation
            source, target = local[pairs.source[here]], local[pairs.target[here]]
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
        self, x: Sequence[Tensor], theta: Tensor, t: Tensor, only_moved: bool
    ) -> list[Tensor]:
        """Sum exp(-t_r L_r) X Theta_r over the relations: [N_a, D] for each node type.

        Args:
            x: the features [N_a, C] of each node type.
            theta: [R, C, D] a matrix for each relation.
            t: [R] diffusion times.
            only_moved: leave out exp(-t_r) X Theta_r, the heat that has not left its node.
        """
        out = [each.new_zeros(len(each), theta.size(-1)) for each in x]
        for relation, types in enumerate(self.members):
            mapped = torch.cat([x[number] @ theta[relation] for number in types])
            times = read_times(t[relation], theta.size(-1))
            heat = evolve(mapped, self.operators[relation], times, self.options).squeeze(0)
            if only_moved:
                heat = heat - torch.exp(-t[relation]) * mapped
            parts = heat.split([len(x[number]) for number in types])
            for number, part in zip(types, parts, strict=True):
                out[number] = out[number] + part
        return out
