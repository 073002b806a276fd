"""The cost of random walks: commute time, by the slowest modes."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..._checks import check_choice, check_nonnegative_int, check_positive_int
from ..._precision import without_autocast
from ..._random import seeded
from ...diffusion import dense_laplacian
from ...graph.points import METRICS
from .factor import Factor
from .factor_error import column_error
from .graph_input import GraphInput, check_connected, read_graph
from .low_spectrum import LowSpectrum, weighted_degree
from .roots import signed_root

DENSE_LIMIT = 400  # nodes of a graph whose Laplacian is inverted as a table
NUM_PROBES = 32  # columns that the error is estimated from
SLOWEST = 1e-10  # the least eigenvalue whose inverse rounding leaves five digits of


@dataclass(frozen=True)
class CommuteCost:
    r"""Commute times: the mean time of a random walk from one node to another and back.

    .. math::
        C_{ik} = \mathrm{vol} \; (\mathbf{e}_i - \mathbf{e}_k)^T \mathbf{L}^{+}
        (\mathbf{e}_i - \mathbf{e}_k) \approx \mathrm{vol} \sum_{a = 2}^{r + 1} \lambda_a^{-1}
        \left( \frac{v_{ia}}{\sqrt{d_i}} - \frac{v_{ka}}{\sqrt{d_k}} \right)^2

    with the lowest eigenpairs of :math:`\mathbf{I} - \mathbf{D}^{-1/2} \mathbf{W}
    \mathbf{D}^{-1/2}`; found by letting heat flow, see `low_spectrum.py`.

    `Factor.error` is the share of what the modes that are left out hold of the whole, estimated
    by heat from some columns. On large graphs that is most of the commute time, which tends to
    :math:`\mathrm{vol} \, (1 / d_i + 1 / d_k)` (von Luxburg, Radl and Hein 2014) and does not
    depend on the structure: there the first modes are the better cost, and the error is no fault.

    Differentiable in the edge weights on graphs of up to 400 nodes, and refused beyond.

    Args:
        rank: the number of columns, or all N - 1 where there are fewer.
        k: neighbours of each point, where a graph has to be made of points.
        metric: of that graph, "l2" or "cosine".
        seed: of the random signals.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if one is out of range.

    Source: Fouss, Pirotte, Renders and Saerens, "Random-walk computation of similarities between
    nodes of a graph", IEEE TKDE 19, 2007.

    Example:
        >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> CommuteCost()(path).dense().round()  # 2 |E| times the resistance
        tensor([[0., 4., 8.],
                [4., 0., 4.],
                [8., 4., 0.]])
    """

    rank: int = 32
    k: int = 10
    metric: str = "l2"
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive_int("rank", self.rank)
        check_positive_int("k", self.k)
        check_choice("metric", self.metric, METRICS)
        check_nonnegative_int("seed", self.seed)

    @without_autocast
    def __call__(
        self, source: Any, edge_weight: Tensor | None = None, num_nodes: int | None = None
    ) -> Factor:
        """Make the factor of a `Data`, a graph, or points.

        Args:
            source: a `Data`, any form of graph, or points [N, D] for the graph of their nearest
                neighbours.
            edge_weight: [E] non-negative; None: that of the `Data` or sparse tensor, or ones.
            num_nodes: N, where isolated nodes may come after the last edge.

        Returns:
            A factor of kind "sqdist" with the edges of the graph, in the type of the weights.

        Raises:
            TypeError: if an argument is of the wrong type.
            ValueError: if there is no graph, if it or its weights are malformed, if it has several
                components, between which there is no walk, or nearly so (rounding hides the
                difference), or if it is too large for a gradient.
        """
        graph = read_graph(source, edge_weight, num_nodes, self.k, self.metric)
        check_connected(graph, "in which a walk comes from any node to any other")
        if graph.num_nodes == 1:
            x, error = torch.zeros(1, 1, device=graph.structure.device), 0.0
        elif graph.num_nodes <= max(DENSE_LIMIT, self.rank + 1):
            x, error = self._exact(graph)
        else:
            x, error = self._from_modes(graph)
        return Factor(x.to(graph.dtype), "sqdist", error=error, edge_index=graph.edge_index)

    def _exact(self, graph: GraphInput) -> tuple[Tensor, float]:
        structure, size = graph.structure, graph.num_nodes
        weight = graph.weight
        if weight is None:
            weight = torch.ones(structure.num_edges, device=structure.device)
        weight = weight.double()
        degree = weighted_degree(structure, weight)[:, None]
        still = (degree / degree.sum()).sqrt()  # the mode of eigenvalue zero
        # It gets the mean eigenvalue, one, so that no threshold on rounding is needed.
        laplacian = dense_laplacian(graph.edge_index, weight, size) + still @ still.T
        _check_slowest(float(torch.linalg.eigvalsh(laplacian.detach())[0]))
        inverse = torch.linalg.inv(laplacian) - still @ still.T
        x = signed_root(inverse, min(self.rank, size - 1), 0.0)[0] / still
        whole = inverse / (still * still.T)
        return x, column_error(x, torch.arange(size, device=x.device), whole, "sqdist")

    def _from_modes(self, graph: GraphInput) -> tuple[Tensor, float]:
        if graph.weight is not None and graph.weight.requires_grad:
            raise ValueError(
                f"Expected 'edge_weight' without a gradient on a graph of more than {DENSE_LIMIT} "
                f"nodes (got requires_grad=True for {graph.num_nodes} nodes). To fix this, pass "
                "edge_weight.detach(), or take HeatCost, which is differentiable on any graph."
            )
        spectrum = LowSpectrum(graph)
        value, vector = spectrum.modes(self.rank, self.seed)
        _check_slowest(float(value[0]))
        x = vector / value.sqrt() / spectrum.still
        generator = seeded(self.seed)
        nodes = torch.randperm(x.size(0), generator=generator)[:NUM_PROBES].to(x.device)
        probe = torch.zeros(x.size(0), nodes.numel(), dtype=x.dtype, device=x.device)
        probe[nodes, torch.arange(nodes.numel(), device=x.device)] = 1 / spectrum.still[nodes, 0]
        rest = spectrum.inverse_beyond(probe, value, vector) / spectrum.still
        return x, column_error(x, nodes, x @ x[nodes].T + rest, "sqdist")


def _check_slowest(value: float) -> None:
    """Raise a ValueError if the lowest eigenvalue above zero is hardly more than rounding."""
    if not value > SLOWEST:
        raise ValueError(
            "Expected a graph in which walks come everywhere in a time that float64 resolves (got "
            f"one whose slowest mode has an eigenvalue of {max(value, 0.0):.2g}, less than "
            f"{SLOWEST:g}): edges of very small weight alone join parts of it. To fix this, give "
            "these edges larger weights, or take HeatCost, which any graph has."
        )
