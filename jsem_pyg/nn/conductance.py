r"""How well an edge conducts: edge features -> h in (0, 1].

Every conductance starts constant, so that a new layer is exactly isotropic, and stays above a
floor: a node whose edges all close keeps a positive degree, and gradients stay finite.
"""

import torch
from torch import Tensor
from torch.nn import Linear, Module, Parameter

from .._checks import (
    FLOATS,
    check_between,
    check_dense,
    check_positive,
    check_positive_int,
    check_tensor,
)

FLOOR = 1e-4


class SigmoidConductance(Module):
    r"""A logistic function of the edge features.

    .. math::
        h(\mathbf{k}) = \epsilon + (1 - \epsilon) \,
        \sigma\left( r \, \mathbf{s}^{\top} (\mathbf{k} - \mathbf{k}_0) \right)

    with the slope :math:`\mathbf{s}`, which starts at zero, and the threshold :math:`\mathbf{k}_0`.

    Args:
        edge_dim: the number F of edge features, such as the curvature alone.
        floor: :math:`\epsilon`.
        rate: :math:`r > 0`, how fast it learns beside other parameters.

    Shapes:
        - **input:** edge features :math:`(|\mathcal{E}|, F)`
        - **output:** conductance :math:`(|\mathcal{E}|)`
    """

    def __init__(self, edge_dim: int = 1, floor: float = FLOOR, rate: float = 1.0) -> None:
        super().__init__()
        check_positive_int("edge_dim", edge_dim)
        check_between("floor", floor, 0, 1)
        check_positive("rate", rate)
        self.floor, self.rate = floor, rate
        self.slope = Parameter(torch.empty(edge_dim))
        self.threshold = Parameter(torch.empty(edge_dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Go back to a constant conductance."""
        torch.nn.init.zeros_(self.slope)
        torch.nn.init.zeros_(self.threshold)

    def forward(self, edge_attr: Tensor) -> Tensor:
        """[E, F] -> [E]; a single feature may come as [E]."""
        logit = (as_columns(edge_attr, self.slope.numel()) - self.threshold) @ self.slope
        return self.floor + (1 - self.floor) * torch.sigmoid(self.rate * logit)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.slope.numel()})"


class MLPConductance(Module):
    r"""A small perceptron of the edge features.

    .. math::
        h(\mathbf{k}) = \epsilon + (1 - \epsilon) \, \sigma(r \, \mathrm{MLP}(\mathbf{k}))

    Its last layer starts at zero.

    Args:
        edge_dim: the number F of edge features.
        hidden_channels: the width of the hidden layer.
        floor: :math:`\epsilon`.
        rate: :math:`r > 0`, how fast it learns beside other parameters.

    Shapes:
        - **input:** edge features :math:`(|\mathcal{E}|, F)`
        - **output:** conductance :math:`(|\mathcal{E}|)`
    """

    def __init__(
        self, edge_dim: int = 1, hidden_channels: int = 16, floor: float = FLOOR, rate: float = 1.0
    ) -> None:
        super().__init__()
        check_positive_int("edge_dim", edge_dim)
        check_positive_int("hidden_channels", hidden_channels)
        check_between("floor", floor, 0, 1)
        check_positive("rate", rate)
        self.floor, self.rate = floor, rate
        self.hidden = Linear(edge_dim, hidden_channels)
        self.out = Linear(hidden_channels, 1)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the hidden layer anew, and go back to a constant conductance."""
        self.hidden.reset_parameters()
        torch.nn.init.zeros_(self.out.weight)
        torch.nn.init.zeros_(self.out.bias)

    def forward(self, edge_attr: Tensor) -> Tensor:
        """[E, F] -> [E]; a single feature may come as [E]."""
        hidden = self.hidden(as_columns(edge_attr, self.hidden.in_features)).relu()
        logit = self.out(hidden).squeeze(-1)
        return self.floor + (1 - self.floor) * torch.sigmoid(self.rate * logit)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.hidden.in_features}, {self.hidden.out_features})"


def as_real(name: str, values: Tensor) -> Tensor:
    """Integers and truth values as floating-point numbers; a TypeError for what is neither."""
    check_tensor(name, values, "a tensor of real numbers")
    if values.is_complex() or (values.is_floating_point() and values.dtype not in FLOATS):
        raise TypeError(f"Expected '{name}' to be a tensor of real numbers (got {values.dtype}).")
    check_dense(name, values)
    return values if values.is_floating_point() else values.to(torch.get_default_dtype())


def as_columns(edge_attr: Tensor, edge_dim: int | None) -> Tensor:
    """Edge features as [E, F] numbers, checked against the F that a layer was made for, if any."""
    edge_attr = as_real("edge_attr", edge_attr)
    columns = edge_attr.unsqueeze(-1) if edge_attr.dim() == 1 else edge_attr
    # Not by `in`, in which compiled code does not find a size that is dynamic.
    if columns.dim() != 2 or (edge_dim is not None and edge_dim != columns.size(1)):
        shape = f"(got {list(edge_attr.shape)})."
        if edge_dim == 0:
            raise ValueError(f"Expected 'edge_attr' to be None for a layer with edge_dim=0 {shape}")
        if edge_dim is None:
            raise ValueError(f"Expected 'edge_attr' to have shape [E, F] {shape}")
        raise ValueError(
            f"Expected 'edge_attr' to have shape [E, {edge_dim}], as 'edge_dim' says {shape}"
        )
    return columns
