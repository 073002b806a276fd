r"""How well an edge conducts, by its features, by both ends, by any module: -> h in (0, 1].

A conductance of edge features starts constant, so that a new layer is exactly isotropic, and stays
above a floor: a node whose edges all close keeps a positive degree, and gradients stay finite.
"""

import inspect
import logging
from typing import cast

import torch
from torch import Tensor
from torch.nn import Linear, Module, Parameter

from .._checks import (
    FLOATS,
    check_dense,
    check_edge_index_shape,
    check_finite,
    check_float,
    check_positive,
    check_positive_int,
    check_tensor,
    numbers_of,
)
from .._precision import normalize_rows
from ..graph.adjacency import Adjacency
from ..graph.structure import GraphRows
from ..kernels.edge_dot import edge_dot
from ..kernels.torch_func import compute_dtype, full_precision, is_transformed

Graph = GraphRows | Adjacency  # compiled code does not prepare it

FLOOR = 1e-4  # epsilon
_LEAST_AGREEMENT = 0.05  # no edge closes wholly
_FAR = 10.0  # standard deviations, at which a column's mean hides what differs

_log = logging.getLogger(__name__)


class SigmoidConductance(Module):
    r"""Computes how well edges conduct by a logistic function of their features.

    .. math::
        h(\mathbf{k}) = \epsilon + (1 - \epsilon) \,
        \sigma\left( r \, \mathbf{s}^{\top} (\mathbf{k} - \mathbf{k}_0) \right)

    with the slope :math:`\mathbf{s}` (zero at the start) and the threshold :math:`\mathbf{k}_0`.

    Args:
        edge_dim: the number F of edge features, such as the curvature alone.
        rate: :math:`r > 0`, how fast it learns next to other parameters.

    Shapes:
        - **input:** edge features :math:`(|\mathcal{E}|, F)`
        - **output:** conductance :math:`(|\mathcal{E}|)`
    """

    _has_looked = False

    def __init__(self, edge_dim: int = 1, rate: float = 1.0) -> None:
        super().__init__()
        check_positive_int("edge_dim", edge_dim)
        check_positive("rate", rate)
        self.rate = rate
        self.slope = Parameter(torch.empty(edge_dim))
        self.threshold = Parameter(torch.empty(edge_dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Make the conductance constant again."""
        torch.nn.init.zeros_(self.slope)
        torch.nn.init.zeros_(self.threshold)

    def forward(self, edge_attr: Tensor) -> Tensor:
        """Compute the conductance [E] of edges from features [E, F], or [E] for a single one."""
        edge_attr = _looked_at(self, as_columns(edge_attr, self.slope.numel()))
        logit = (edge_attr - self.threshold) @ self.slope
        return FLOOR + (1 - FLOOR) * torch.sigmoid(self.rate * logit)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.slope.numel()})"


class MLPConductance(Module):
    r"""Computes how well edges conduct by a small perceptron of their features.

    .. math::
        h(\mathbf{k}) = \epsilon + (1 - \epsilon) \, \sigma(r \, \mathrm{MLP}(\mathbf{k}))

    Its last layer starts at zero.

    Args:
        edge_dim: the number F of edge features.
        hidden_channels: the width of the hidden layer.
        rate: :math:`r > 0`, how fast it learns next to other parameters.

    Shapes:
        - **input:** edge features :math:`(|\mathcal{E}|, F)`
        - **output:** conductance :math:`(|\mathcal{E}|)`
    """

    _has_looked = False

    def __init__(self, edge_dim: int = 1, hidden_channels: int = 16, rate: float = 1.0) -> None:
        super().__init__()
        check_positive_int("edge_dim", edge_dim)
        check_positive_int("hidden_channels", hidden_channels)
        check_positive("rate", rate)
        self.rate = rate
        self.hidden = Linear(edge_dim, hidden_channels)
        self.out = Linear(hidden_channels, 1)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the hidden layer anew, and go back to a constant conductance."""
        self.hidden.reset_parameters()
        torch.nn.init.zeros_(self.out.weight)
        torch.nn.init.zeros_(self.out.bias)

    def forward(self, edge_attr: Tensor) -> Tensor:
        """Compute the conductance [E] of edges from features [E, F], or [E] for a single one."""
        columns = _looked_at(self, as_columns(edge_attr, self.hidden.in_features))
        hidden = self.hidden(columns).relu()
        logit = self.out(hidden).squeeze(-1)
        return FLOOR + (1 - FLOOR) * torch.sigmoid(self.rate * logit)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.hidden.in_features}, {self.hidden.out_features})"


class AgreementConductance(Module):
    r"""Computes how far an edge conducts by how well the classes of both its ends agree.

    .. math::
        h_{ij} = 0.05 + 0.95 \sum_c \hat p_{ic} \, \hat p_{jc}, \qquad
        \hat p_{ic} = p_{ic}^2 / \sum_{c'} p_{ic'}^2

    The sum is the chance that the classes of both ends are the same, if each is drawn by its
    :math:`\hat p`. The module is called with all nodes and the edges between them, so that
    no pair of rows for every edge is in memory.
    """

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Compute the conductance [E] of edges [2, E] from probabilities [N, C] >= 0."""
        check_float("x", x)
        if x.dim() != 2:
            raise ValueError(f"Expected 'x' to have shape [N, C] (got {list(x.shape)}).")
        check_edge_index_shape(edge_index)
        sharp = normalize_rows(x.square())
        return _LEAST_AGREEMENT + (1 - _LEAST_AGREEMENT) * edge_dot(sharp, sharp, *edge_index)


#: The conductances that a layer makes by name.
CONDUCTANCES: dict[str, type[Module]] = {
    "sigmoid": SigmoidConductance,
    "mlp": MLPConductance,
    "agreement": AgreementConductance,
}


def make_conductance(conductance: str | Module, edge_dim: int, rate: float) -> Module | None:
    """Make the module that the argument of a layer names; None if every edge conducts fully."""
    if isinstance(conductance, Module):
        return conductance
    if not isinstance(conductance, str) or conductance not in CONDUCTANCES:
        names = ", ".join(map(repr, CONDUCTANCES))
        raise ValueError(
            f"Expected 'conductance' to be {names} or a torch.nn.Module (got {conductance!r})."
        )
    kind = CONDUCTANCES[conductance]
    if kind is AgreementConductance:
        return kind()
    return kind(edge_dim, rate=rate) if edge_dim else None


def as_columns(edge_attr: Tensor, edge_dim: int | None) -> Tensor:
    """Return edge features as [E, F] floating-point numbers; check the F of a layer, if it has one.

    Truth values become numbers of torch's default type; integers may be types of edges.
    """
    check_tensor("edge_attr", edge_attr, "a tensor of real numbers")
    if edge_attr.dtype not in (*FLOATS, torch.bool):
        raise TypeError(
            f"Expected 'edge_attr' to hold floating-point numbers (got {edge_attr.dtype}). To fix "
            "this, pass types of edges as edge_type=, to a layer with num_relations=, and numbers "
            "as edge_attr.float()."
        )
    check_dense("edge_attr", edge_attr)
    columns = edge_attr.unsqueeze(-1) if edge_attr.dim() == 1 else edge_attr
    # Not by `in`, in which compiled code does not find a size that is dynamic.
    if columns.dim() != 2 or (edge_dim is not None and edge_dim != columns.size(1)):
        special = {None: "have shape [E, F]", 0: "be None for a layer with edge_dim=0"}
        expected = special.get(edge_dim, f"have shape [E, {edge_dim}], as 'edge_dim' says")
        raise ValueError(f"Expected 'edge_attr' to {expected} (got {list(edge_attr.shape)}).")
    return columns if columns.is_floating_point() else columns.to(torch.get_default_dtype())


def _looked_at(conductance: "SigmoidConductance | MLPConductance", columns: Tensor) -> Tensor:
    """Return features [E, F]; of the first that a module learns from, say if they suit it."""
    if torch.compiler.is_compiling() or is_transformed() or columns.is_meta:
        return columns  # there are no values to look at
    if conductance.training and len(columns) and not conductance._has_looked:
        conductance._has_looked = True
        spread, mean = torch.std_mean(columns.detach().float(), dim=0, correction=0)
        for i in map(int, ((spread > 0) & (mean.abs() > _FAR * spread)).nonzero().flatten()):
            _log.warning(
                "column %d of 'edge_attr' has a mean of %.4g, far above its standard deviation of "
                "%.4g, and is hardly learned from. To fix this, pass (edge_attr - "
                "edge_attr.mean(0)) / edge_attr.std(0).",
                i, mean[i], spread[i],
            )  # fmt: skip
    return columns


def sees_nodes(conductance: Module | None) -> bool:
    """Return True if a conductance depends on the nodes: it takes (edge_attr, x_i, x_j)."""
    if conductance is None or isinstance(conductance, AgreementConductance):
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


def conduct(
    graph: Graph, x: Tensor, edge_attr: Tensor | None, conductance: Module | None, by_ends: bool
) -> Tensor | None:
    """Compute the conductance [E] of the edges of a graph; None if all conduct alike.

    Args:
        graph: the graph, whose rows may be those of one process among others.
        x: [N, D] features of the nodes; [..., N, D] for a conductance that does not see them.
        edge_attr: [E, F], in the order of the columns of `edge_index`; or None.
        conductance: the module, or None.
        by_ends: whether it takes (edge_attr, x_i, x_j), see :func:`sees_nodes`.
    """
    if conductance is None:
        return None
    if edge_attr is None and not by_ends:
        return _unused(conductance, graph)
    is_autocast = torch.is_autocast_enabled(x.device.type)
    with full_precision(x.device):
        if isinstance(conductance, (SigmoidConductance, MLPConductance)):
            return cast(Tensor, conductance(edge_attr))
        if not by_ends:
            return _checked(conductance(edge_attr), None if edge_attr is None else len(edge_attr))
        if x.dim() > 2:
            raise ValueError(
                "Expected 'x' to have shape [N, D], since the conductance looks at the nodes and "
                f"would differ from batch to batch (got {list(x.shape)})."
            )
        if is_autocast:  # x may come from another layer in a lower type
            x = x.to(compute_dtype(x))
        if isinstance(graph, Adjacency):
            target, source = graph.ends()
        else:
            x, (target, source) = graph.to_columns(x), graph.edges
        return conduct_between(conductance, edge_attr, x, torch.stack([source, target]))


def conduct_between(
    conductance: Module, edge_attr: Tensor | None, x: Tensor, edge_index: Tensor
) -> Tensor:
    """Compute the conductance [E] of edges [2, E] by a module that sees nodes, and check it."""
    if isinstance(conductance, AgreementConductance):
        out = conductance(x, edge_index)
    else:
        source, target = edge_index
        out = conductance(edge_attr, x[target], x[source])
    return _checked(out, edge_index.size(1))


def _unused(conductance: Module, graph: Graph) -> Tensor | None:
    """Return ones [E] that give an unused conductance zero gradients, or None.

    `DistributedDataParallel` takes a parameter without a gradient for an error.
    """
    parameters = [each for each in conductance.parameters() if each.requires_grad]
    if not (conductance.training and parameters and torch.is_grad_enabled()):
        return None
    unused = 0 * torch.stack([each.sum() for each in parameters]).sum()
    num_edges = graph.row.numel() if isinstance(graph, Adjacency) else graph.num_edges
    return (1 + unused).expand(num_edges)


def _checked(out: Tensor, num_edges: int | None) -> Tensor:
    """Check what a module returned, one number for every edge, and keep it above the floor."""
    if not isinstance(out, Tensor) or out.dtype not in FLOATS or out.layout != torch.strided:
        got = f"{out.dtype}, {out.layout}" if isinstance(out, Tensor) else type(out).__name__
        raise TypeError(f"Expected 'conductance' to return a dense float tensor (got {got}).")
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
