r"""How well an edge conducts: edge features -> h in (0, 1]."""

import inspect
from typing import cast

import torch
from torch import Tensor
from torch.nn import Linear, Module, Parameter

from .._checks import (
    FLOATS,
    check_between,
    check_dense,
    check_finite,
    check_positive,
    check_positive_int,
    check_tensor,
    numbers_of,
)
from .conductance_base import FLOOR, ConstantAtFirst, Ends, NodeConductance


class SigmoidConductance(ConstantAtFirst):
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
        _check_form(floor, rate)
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


class MLPConductance(ConstantAtFirst):
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
        self,
        edge_dim: int = 1,
        hidden_channels: int = 16,
        floor: float = FLOOR,
        rate: float = 1.0,
    ) -> None:
        super().__init__()
        check_positive_int("edge_dim", edge_dim)
        check_positive_int("hidden_channels", hidden_channels)
        _check_form(floor, rate)
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


def _check_form(floor: float, rate: float) -> None:
    check_between("floor", floor, 0, 1)
    check_positive("rate", rate)


class ModuleConductance(Module):
    """A module of the user's: its output is checked, and kept above the floor.

    Args:
        module: maps (edge_attr) or (edge_attr, x_i, x_j) to [E] or [E, 1] in [0, 1]; i is the
            target of an edge, j its source.
    """

    def __init__(self, module: Module, floor: float = FLOOR) -> None:
        super().__init__()
        self.module = module
        self.floor = floor
        self.sees_nodes = _num_arguments(module) == 3
        steps = isinstance(module, NodeConductance)
        # A class of the user's own may override a method that another one is made of.
        self._has_steps = steps and _decides(module, "between", "forward")
        self._has_along = self._has_steps and _decides(module, "along", "between")

    def reset_parameters(self) -> None:
        """Reset every part of the module that has `reset_parameters`."""
        for part in self.module.modules():
            reset = getattr(part, "reset_parameters", None)
            if callable(reset):
                reset()

    @property
    def signed(self) -> bool:
        """True if conductances may be negative."""
        return isinstance(self.module, NodeConductance) and self.module.signed

    @property
    def is_even(self) -> bool:
        """True if an edge conducts the same from either end, whatever its ends are."""
        return self._has_steps

    def project(self, x: Tensor) -> Tensor:
        """The features of nodes that the conductance depends on: [N, D] -> [N, K]."""
        return cast(NodeConductance, self.module).project(x) if self._has_steps else x

    def forward(
        self,
        edge_attr: Tensor | None,
        x_i: Tensor | None = None,
        x_j: Tensor | None = None,
        *,
        z: Tensor | None = None,
        ends: Ends | None = None,
    ) -> Tensor:
        """Call the module for both ends of every edge, or for `ends` of nodes z: -> [E].

        Args:
            edge_attr: [E, F] or None.
            x_i: [E, D] features of the targets.
            x_j: [E, D] features of the sources.
            z: [N, K] instead of both, what :meth:`project` made of the features of all nodes.
            ends: the target [E] and the source [E] of every edge, rows of z.
        """
        if z is None or ends is None:
            out = self.module(edge_attr, x_i, x_j) if self.sees_nodes else self.module(edge_attr)
        elif self._has_along:
            out = cast(NodeConductance, self.module).along(edge_attr, z, ends)
        else:
            form = cast(NodeConductance, self.module).between if self._has_steps else self.module
            out = form(edge_attr, *(z[end] for end in ends))
        if not isinstance(out, Tensor) or not out.is_floating_point():
            got = out.dtype if isinstance(out, Tensor) else type(out).__name__
            raise TypeError(
                f"Expected 'conductance' to return a floating-point tensor (got {got})."
            )
        out = out.squeeze(-1) if out.dim() == 2 else out
        given = ends[0] if ends is not None else edge_attr if x_i is None else x_i
        if out.dim() != 1 or (given is not None and out.size(0) != given.size(0)):
            count = "E" if given is None else given.size(0)
            raise ValueError(
                f"Expected 'conductance' to return shape [E] or [E, 1] (got {list(out.shape)}, "
                f"with E = {count})."
            )
        # A compiler has no values to look at, so compiled code has to do without.
        if out.device.type == "cpu" and out.numel() and not torch.compiler.is_compiling():
            check_finite("conductance", out)
            low, high = float(numbers_of(out).min()), float(numbers_of(out).max())
            if low < (-1 - 1e-6 if self.signed else 0) or high > 1 + 1e-6:
                raise ValueError(
                    f"Expected 'conductance' to return values in [0, 1] (got {low:.4g} to "
                    f"{high:.4g}). To fix this, end it with torch.nn.Sigmoid()."
                )
        return out if self.signed else out.clamp(min=self.floor)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.module})"


Conductance = SigmoidConductance | MLPConductance | ModuleConductance


def make_conductance(
    conductance: str | Module, edge_dim: int, rate: float = 1.0
) -> Conductance | None:
    """The module behind the `conductance` argument of the layers; None: every edge conducts fully.

    Raises:
        ValueError: if `conductance` is neither "sigmoid", "mlp" nor a module.
    """
    if isinstance(conductance, Module):
        return ModuleConductance(conductance)
    if not isinstance(conductance, str) or conductance not in ("sigmoid", "mlp"):
        raise ValueError(
            f"Expected 'conductance' to be 'sigmoid', 'mlp' or a torch.nn.Module "
            f"(got {conductance!r})."
        )
    form = SigmoidConductance if conductance == "sigmoid" else MLPConductance
    return form(edge_dim, rate=rate) if edge_dim else None


def initial_conductance(conductance: Conductance | None) -> float:
    """The conductance of every edge of a new layer; one for modules without `initial`."""
    form = conductance.module if isinstance(conductance, ModuleConductance) else conductance
    return form.initial if isinstance(form, ConstantAtFirst) else 1.0


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
    if columns.dim() != 2 or edge_dim not in (None, columns.size(1)):
        raise ValueError(
            f"Expected 'edge_attr' to have shape [E, {'F' if edge_dim is None else edge_dim}], "
            f"with F as 'edge_dim' says (got {list(edge_attr.shape)})."
        )
    return columns


def _decides(module: Module, method: str, other: str) -> bool:
    """True if `other` is not overridden below the class that defines `method`."""
    of_method, of_other = (
        next(kind for kind in type(module).__mro__ if name in vars(kind))
        for name in (method, other)
    )
    return issubclass(of_method, of_other)


def _num_arguments(module: Module) -> int:
    """How many positional arguments a module's forward takes: 1 or 3."""
    parameters = inspect.signature(module.forward).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [p for p in parameters if p.kind in kinds and p.default is inspect.Parameter.empty]
    if len(required) not in (1, 3):
        raise ValueError(
            "Expected 'conductance' to be a module that takes (edge_attr) or "
            f"(edge_attr, x_i, x_j) (got {len(required)} required arguments: "
            f"{', '.join(p.name for p in required)})."
        )
    return len(required)
