"""The heat kernel of a graph as a cost, factored from one Chebyshev series."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..._checks import check_choice, check_nonnegative_int, check_positive, check_positive_int
from ..._random import seeded
from ...diffusion import heat_diffusion
from ...kernels.torch_func import without_autocast
from ...neighbors.points import METRICS
from .factor import KINDS, Factor
from .factor_error import check_loss, column_error, smallest_rank, warn_if_large
from .graph_input import GraphInput, read_graph
from .roots import inverse_root, leading_basis, signed_root

NUM_PROBES = 64  # columns that the error is estimated from
ROUNDING = 8  # units of the last place, of a kernel whose norm is one


@dataclass(frozen=True)
class HeatCost:
    r"""Takes the heat kernel of a graph, or the diffusion distance, as costs, in a factor.

    .. math::
        K = e^{-t \mathbf{L}}, \qquad
        C = K \quad \mathrm{or} \quad C_{ik} = K_{ii} + K_{kk} - 2 K_{ik}

    for kind "kernel" or "sqdist", with the Laplacian :math:`\mathbf{L} = \mathbf{I} -
    \mathbf{D}^{-1/2} \mathbf{W} \mathbf{D}^{-1/2}`. The latter is the squared distance between the
    columns of :math:`e^{-t \mathbf{L} / 2}`: diffusion distance at half that time.

    Random vectors :math:`\mathbf{\Omega}`, and the nodes that the error is estimated from, go
    through one Chebyshev series; then :math:`\mathbf{X} = K \mathbf{\Omega}
    (\mathbf{\Omega}^T K \mathbf{\Omega})^{-1/2}` (Nyström), cut to the leading axes. A graph of no
    more than `num_anchors` nodes is factored exactly. Short times make a kernel of nearly full
    rank that no factor approximates; longer ones make a smooth one. Differentiable in the edge
    weights, if they are given: exactly so for what depends on the cost matrix, where the cut to
    `rank` separates different eigenvalues. Disconnected graphs are fine.

    Args:
        t: diffusion time > 0.
        kind: "kernel" or "sqdist".
        rank: the number of columns; None: as many as hold all but `tol` of the norm, or all where
            the factor is exact.
        num_anchors: the number of random vectors, at least `rank`.
        k: neighbours of each point, if a graph has to be made of points.
        metric: of that graph, "l2" or "cosine".
        tol: what a cut may lose, as a share of the norm; not below rounding.
        seed: of the random vectors.

    Source: Coifman and Lafon, "Diffusion maps", Applied and Computational Harmonic Analysis 21,
    2006; Williams and Seeger, "Using the Nyström method to speed up kernel machines", NeurIPS 2000;
    Halko, Martinsson and Tropp, "Finding structure with randomness", SIAM Review 53, 2011, §5.4.

    Example:
        >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> factor = HeatCost(t=1.0)(edge_index)
        >>> factor
        Factor(kernel, num_points=3, rank=3)
        >>> factor.error < 1e-6
        True
    """

    t: float = 20.0
    kind: str = "kernel"
    rank: int | None = None
    num_anchors: int = 256
    k: int = 10
    metric: str = "l2"
    tol: float = 1e-3
    seed: int = 0

    def __post_init__(self) -> None:
        check_positive("t", self.t)
        check_choice("kind", self.kind, KINDS)
        check_positive_int("num_anchors", self.num_anchors)
        if self.rank is not None:
            check_positive_int("rank", self.rank)
            if self.rank > self.num_anchors:
                raise ValueError(
                    f"Expected 'rank' to be at most 'num_anchors', {self.num_anchors} (got "
                    f"{self.rank}). To fix this, raise 'num_anchors' to twice the rank."
                )
        check_positive_int("k", self.k)
        check_choice("metric", self.metric, METRICS)
        check_loss("tol", self.tol)
        check_nonnegative_int("seed", self.seed)

    @without_autocast
    def __call__(
        self, source: Any, edge_weight: Tensor | None = None, num_nodes: int | None = None
    ) -> Factor:
        """Make the factor of a `Data`, a graph, or points.

        Args:
            source: a `Data`, any form of graph, or points [N, D] for the graph of their nearest
                neighbours.
            edge_weight: [E] non-negative; None: weights of the `Data` or sparse tensor, or ones.
            num_nodes: N, if isolated nodes may come after the last edge.

        Returns:
            A factor with the edges of the graph, in the type of the weights.
        """
        graph = read_graph(source, edge_weight, num_nodes, self.k, self.metric)
        if graph.num_nodes <= self.num_anchors:
            x, error = self._exact(graph)
        else:
            x, error = self._from_anchors(graph)
        warn_if_large(
            "HeatCost", error, "take longer times 't', or a larger 'num_anchors' and 'rank'"
        )
        return Factor(x, self.kind, error=error, edge_index=graph.edge_index)

    def _diffuse(self, graph: GraphInput, signal: Tensor) -> Tensor:
        """Multiply a signal [N, M] by K."""
        tol = max(1e-13, 10 * torch.finfo(signal.dtype).eps)
        return heat_diffusion(signal, graph.structure, graph.weight, self.t, tol=tol)

    def _exact(self, graph: GraphInput) -> tuple[Tensor, float]:
        size, device = graph.num_nodes, graph.structure.device
        kernel = self._diffuse(graph, torch.eye(size, dtype=graph.dtype, device=device))
        x, _ = signed_root(kernel, self.rank or size, 0.0)  # negative eigenvalues are rounding
        return x, column_error(x, torch.arange(size, device=device), kernel, self.kind)

    def _from_anchors(self, graph: GraphInput) -> tuple[Tensor, float]:
        anchor, nodes = self._draw(graph)
        probe = torch.zeros(graph.num_nodes, nodes.numel(), dtype=anchor.dtype)
        probe[nodes, torch.arange(nodes.numel())] = 1
        device = graph.structure.device
        anchor, probe, nodes = anchor.to(device), probe.to(device), nodes.to(device)
        flown = self._diffuse(graph, torch.cat([anchor, probe], 1))
        spread, column = flown[:, : anchor.size(1)], flown[:, anchor.size(1) :]
        # The sums behind an inverse are long: in float64.
        core = anchor.double().T @ spread.double()
        shift = ROUNDING * torch.finfo(spread.dtype).eps
        x = self._cut(spread @ inverse_root(core, shift).to(spread.dtype))
        return x, column_error(x, nodes, column, self.kind)

    def _draw(self, graph: GraphInput) -> tuple[Tensor, Tensor]:
        """Draw nearly orthonormal vectors [N, M], and the nodes [P] of probes."""
        generator = seeded(self.seed)
        shape = (graph.num_nodes, self.num_anchors)
        normal = torch.randn(shape, generator=generator, dtype=graph.dtype)
        nodes = torch.randperm(graph.num_nodes, generator=generator)[:NUM_PROBES]
        if graph.num_nodes > 4 * self.num_anchors:  # which are nearly orthogonal by themselves
            return normal / graph.num_nodes**0.5, nodes
        return torch.linalg.qr(normal)[0], nodes

    def _cut(self, x: Tensor) -> Tensor:
        """Cut X [N, r] to its leading axes: as many as asked for, or needed."""
        gram = x.double().T @ x.double()
        rank = self.rank
        if rank is None:
            value = torch.linalg.eigvalsh(gram.detach()).flip(0).clamp(min=0)
            share = max(self.tol, 10 * torch.finfo(x.dtype).eps)
            rank = smallest_rank(value, share)
        if rank >= gram.size(0):
            return x
        return x @ leading_basis(gram, rank).to(x.dtype)
