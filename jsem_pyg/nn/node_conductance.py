"""Conductances that look at both ends of an edge, and modules of the user's own."""

import inspect

import torch
from torch import Tensor
from torch.nn import Module, Parameter
from torch_geometric.nn.dense.linear import Linear

from .._checks import (
    FLOATS,
    check_between,
    check_dense,
    check_edge_index_shape,
    check_finite,
    check_float,
    check_positive,
    check_positive_int,
    numbers_of,
)
from .._precision import check_type_of_layer, full_precision, normalize_rows
from ..graph.adjacency import Adjacency
from ..graph.rows import GraphRows
from ..kernels.edge_dot import edge_dot
from .conductance import FLOOR, MLPConductance, SigmoidConductance

Graph = GraphRows | Adjacency  # compiled code does not prepare it
_AGREEMENT_FLOOR = 0.05


class NodeConductance(Module):
    """Abstract: a conductance of both ends of an edge, the same from either end.

    It gets all nodes and the edges between them, so that what depends on a node alone is computed
    once for each node.
    """

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Compute the conductance [E] of edges [2, E] between nodes of features x [N, D]."""
        raise NotImplementedError

    def _check(self, x: Tensor, edge_index: Tensor) -> None:
        check_float("x", x)
        check_dense("x", x)
        if x.dim() != 2:
            raise ValueError(f"Expected 'x' to have shape [N, D] (got {list(x.shape)}).")
        check_edge_index_shape(edge_index)


class AgreementConductance(NodeConductance):
    r"""The conductance of an edge is the agreement of the class probabilities of its ends.

    .. math::
        h_{ij} = \epsilon + (1 - \epsilon) \sum_c \hat p_{ic} \, \hat p_{jc}, \qquad
        \hat p_{ic} = p_{ic}^{\gamma} / \sum_{c'} p_{ic'}^{\gamma}

    The sum is the chance that the classes of both ends are the same, if each is drawn from its
    sharpened probabilities.

    Args:
        sharpness: :math:`\gamma > 0`; above one, uncertain probabilities count as more certain.
        floor: :math:`\epsilon` in (0, 1): no edge closes wholly.

    Example:
        >>> p = torch.tensor([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]])
        >>> AgreementConductance()(p, torch.tensor([[0, 1], [1, 2]]))
        tensor([0.9771, 0.0729])
    """

    def __init__(self, sharpness: float = 2.0, floor: float = _AGREEMENT_FLOOR) -> None:
        super().__init__()
        check_positive("sharpness", sharpness)
        check_between("floor", floor, 0, 1)
        self.sharpness = sharpness
        self.floor = floor

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Compute the conductance [E] of edges [2, E] from probabilities [N, C] >= 0, not all zero.

        Memory holds no pair of rows for every edge.
        """
        self._check(x, edge_index)
        tiny = torch.finfo(x.dtype).tiny
        # By the largest of a row first, so that no power of it under- or overflows; it cancels.
        relative = x / x.detach().amax(-1, keepdim=True).clamp(min=tiny)
        # Not of zero, where powers below one have no gradient.
        sharp = normalize_rows(relative.clamp(min=tiny).pow(self.sharpness))
        return self.floor + (1 - self.floor) * edge_dot(sharp, sharp, *edge_index)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(sharpness={self.sharpness}, floor={self.floor})"


class EndpointConductance(NodeConductance):
    r"""A conductance of the features of both ends of an edge, the same from either side.

    .. math::
        h_{ij} = \epsilon + (1 - \epsilon) \, \sigma(r \, u_{ij}), \qquad
        u_{ij} = \mathbf{a}^{\top} |\mathbf{z}_i - \mathbf{z}_j| +
        \mathbf{b}^{\top} (\mathbf{z}_i \odot \mathbf{z}_j) +
        \mathbf{c}^{\top} (\mathbf{z}_i + \mathbf{z}_j) + d, \qquad
        \mathbf{z}_i = \mathbf{\Theta} \mathbf{x}_i

    how far the ends are apart, how far they are alike, and on each end alone. It is given to
    a layer as its `conductance`; the features are those that the layer diffuses.

    Args:
        in_channels: the number D of features, or -1 to take it from the first call.
        hidden_channels: the number K of features that edges look at.
        floor: :math:`\epsilon`.
        rate: :math:`r > 0`, how fast it learns next to other parameters.

    Example:
        >>> from jsem_pyg.nn import AnisotropicChebConv
        >>> conv = AnisotropicChebConv(5, 8, edge_dim=0, conductance=EndpointConductance(5))
        >>> conv(torch.randn(3, 5), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])).shape
        torch.Size([3, 8])
    """

    def __init__(
        self,
        in_channels: int = -1,
        hidden_channels: int = 16,
        floor: float = FLOOR,
        rate: float = 1.0,
    ) -> None:
        super().__init__()
        if not isinstance(in_channels, int) or in_channels != -1:
            check_positive_int("in_channels", in_channels)
        check_positive_int("hidden_channels", hidden_channels)
        check_between("floor", floor, 0, 1)
        check_positive("rate", rate)
        self.floor, self.rate = floor, rate
        self.lin = Linear(in_channels, hidden_channels, bias=False, weight_initializer="glorot")
        self.apart = Parameter(torch.empty(hidden_channels))
        self.alike = Parameter(torch.empty(hidden_channels))
        self.alone = Parameter(torch.empty(hidden_channels))
        self.bias = Parameter(torch.empty(()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the projection anew, and make the conductance constant again."""
        self.lin.reset_parameters()
        for each in (self.apart, self.alike, self.alone, self.bias):
            torch.nn.init.zeros_(each)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Compute the conductance [E] of edges [2, E] between nodes of features x [N, D]."""
        self._check(x, edge_index)
        width = self.lin.in_channels
        if width not in (-1, x.size(1)):
            raise ValueError(
                f"Expected 'x' to have {width} channels, as 'in_channels' says (got {x.size(1)})."
            )
        check_type_of_layer("x", x, self.lin)
        z = self.lin(x).to(self.apart)  # autocast projects in a lower type
        with full_precision(x.device):
            z_i, z_j = (z.index_select(0, ends) for ends in edge_index)
            apart, alike = (z_i - z_j).abs() @ self.apart, (z_i * z_j) @ self.alike
            alone = (z_i + z_j) @ self.alone
            logit = self.rate * (apart + alike + alone + self.bias)
            return self.floor + (1 - self.floor) * torch.sigmoid(logit)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.lin.in_channels}, {self.lin.out_channels})"


def make_conductance(conductance: str | Module, edge_dim: int, rate: float) -> Module | None:
    """Make the module that the argument of a layer names; None if every edge conducts fully."""
    if isinstance(conductance, Module):
        return conductance
    if not isinstance(conductance, str) or conductance not in ("sigmoid", "mlp"):
        raise ValueError(
            f"Expected 'conductance' to be 'sigmoid', 'mlp' or a torch.nn.Module "
            f"(got {conductance!r})."
        )
    form = SigmoidConductance if conductance == "sigmoid" else MLPConductance
    return form(edge_dim, rate=rate) if edge_dim else None


def sees_nodes(conductance: Module | None) -> bool:
    """Return True if a conductance depends on the nodes: it takes (edge_attr, x_i, x_j)."""
    if conductance is None or isinstance(conductance, NodeConductance):
        return conductance is not None
    parameters = inspect.signature(conductance.forward).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [p for p in parameters if p.kind in kinds and p.default is inspect.Parameter.empty]
    if len(required) not in (1, 3):
        raise ValueError(
            "Expected 'conductance' to be a module that takes (edge_attr) or "
            f"(edge_attr, x_i, x_j) (got {len(required)} required arguments: "
            f"{', '.join(p.name for p in required)})."
        )
    return len(required) == 3


def conduct_between(
    conductance: Module, edge_attr: Tensor | None, x: Tensor, edge_index: Tensor
) -> Tensor:
    """Compute the conductance [E] of edges [2, E] by a module that sees nodes, and check it."""
    if isinstance(conductance, NodeConductance):
        out = conductance(x, edge_index)
    else:
        source, target = edge_index
        out = conductance(edge_attr, x[target], x[source])
    return _checked(out, edge_index.size(1))


def conduct_edges(
    conductance: Module,
    edge_attr: Tensor | None,
    x: Tensor | None = None,
    graph: Graph | None = None,
) -> Tensor:
    """Compute the conductance [E] of a graph's edges by a module, and check it.

    Features of nodes x [N, D] and the graph are for modules that see nodes.
    """
    if x is None or graph is None:
        return _checked(conductance(edge_attr), None if edge_attr is None else len(edge_attr))
    if x.dim() > 2:
        raise ValueError(
            "Expected 'x' to have shape [N, D], since the conductance looks at the nodes and "
            f"would differ from batch to batch (got {list(x.shape)})."
        )
    if isinstance(graph, Adjacency):
        target, source = graph.ends()
    else:
        x, (target, source) = graph.spread(x), graph.edges
    return conduct_between(conductance, edge_attr, x, torch.stack([source, target]))


def _checked(out: Tensor, num_edges: int | None) -> Tensor:
    """Check what a module returned, one number for every edge, and keep it above the floor."""
    if not isinstance(out, Tensor) or out.dtype not in FLOATS or out.layout != torch.strided:
        got = f"{out.dtype}, {out.layout}" if isinstance(out, Tensor) else type(out).__name__
        raise TypeError(
            f"Expected 'conductance' to return a dense floating-point tensor (got {got})."
        )
    out = out.squeeze(-1) if out.dim() == 2 else out
    if out.dim() != 1 or (num_edges is not None and out.size(0) != num_edges):
        raise ValueError(
            f"Expected 'conductance' to return shape [E] or [E, 1] (got {list(out.shape)}, with "
            f"E = {'E' if num_edges is None else num_edges})."
        )
    # A compiler has no values to look at, and a GPU would have to wait.
    if out.device.type == "cpu" and out.numel() and not torch.compiler.is_compiling():
        check_finite("conductance", out)
        low, high = float(numbers_of(out).min()), float(numbers_of(out).max())
        if low < 0 or high > 1 + 1e-6:
            raise ValueError(
                f"Expected 'conductance' to return values in [0, 1] (got {low:.4g} to "
                f"{high:.4g}). To fix this, end it with torch.nn.Sigmoid(); the scale belongs into "
                "the time 't', or into 'edge_weight'."
            )
    return out.clamp(min=FLOOR)
