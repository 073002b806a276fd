r"""How well an edge conducts: edge features -> h in (0, 1].

Every conductance starts constant, so that a new layer is exactly isotropic, and stays above a
floor: a node whose edges all close keeps a positive degree, and gradients stay finite.
"""

import logging

import torch
from torch import Tensor
from torch.nn import Linear, Module, Parameter

from .._checks import (
    FLOATS,
    check_dense,
    check_positive,
    check_positive_int,
    check_tensor,
)
from ..kernels.torch_func import is_transformed

FLOOR = 1e-4  # epsilon
_FAR = 10.0  # times its spread, a column's mean hides what differs

_log = logging.getLogger(__name__)


class _Form(Module):
    """Reads edge features, and looks at the first ones that it learns from."""

    _has_looked = False

    def columns(self, edge_attr: Tensor, edge_dim: int) -> Tensor:
        """Return edge features as [E, F]; say once if a column's mean is far above its spread."""
        columns = as_columns(edge_attr, edge_dim)
        if torch.compiler.is_compiling() or is_transformed() or columns.is_meta:
            return columns  # there are no values to look at
        if self.training and not self._has_looked and len(columns):
            self._has_looked = True
            spread, mean = torch.std_mean(columns.detach().float(), dim=0, correction=0)
            for i in map(int, ((spread > 0) & (mean.abs() > _FAR * spread)).nonzero().flatten()):
                _log.warning(
                    "column %d of 'edge_attr' has a mean of %.4g, far above its spread of %.4g, "
                    "and is hardly learned from. To fix this, pass (edge_attr - "
                    "edge_attr.mean(0)) / edge_attr.std(0).",
                    i, mean[i], spread[i],
                )  # fmt: skip
        return columns


class SigmoidConductance(_Form):
    r"""A logistic function of the edge features.

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
        edge_attr = self.columns(edge_attr, self.slope.numel())
        logit = (edge_attr - self.threshold) @ self.slope
        return FLOOR + (1 - FLOOR) * torch.sigmoid(self.rate * logit)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.slope.numel()})"


class MLPConductance(_Form):
    r"""A small perceptron of the edge features.

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
        hidden = self.hidden(self.columns(edge_attr, self.hidden.in_features)).relu()
        logit = self.out(hidden).squeeze(-1)
        return FLOOR + (1 - FLOOR) * torch.sigmoid(self.rate * logit)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.hidden.in_features}, {self.hidden.out_features})"


#: The conductances of edge features that a layer makes by name.
CONDUCTANCES: dict[str, type[SigmoidConductance] | type[MLPConductance]] = {
    "sigmoid": SigmoidConductance,
    "mlp": MLPConductance,
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
    return CONDUCTANCES[conductance](edge_dim, rate=rate) if edge_dim else None


def as_columns(edge_attr: Tensor, edge_dim: int | None) -> Tensor:
    """Return edge features as [E, F] floating-point numbers; check the F of a layer, if it has one.

    Truth values become numbers of torch's default type; integers may be kinds of edges.
    """
    check_tensor("edge_attr", edge_attr, "a tensor of real numbers")
    if edge_attr.dtype not in (*FLOATS, torch.bool):
        raise TypeError(
            f"Expected 'edge_attr' to hold floating-point numbers (got {edge_attr.dtype}). To fix "
            "this, pass kinds of edges as edge_type=, to a layer with num_relations=, and numbers "
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
