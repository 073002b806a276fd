r"""How well the edges of every relation conduct: a relation -> h in (0, 1]."""

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn import Module, Parameter

from .._checks import check_positive, check_positive_int
from .conductance import FLOOR


class RelationConductance(Module):
    r"""Looks up how well an edge conducts by its relation: one learned number for each of R.

    .. math::
        h(r) = \epsilon + (1 - \epsilon) \, \sigma(\rho \, \theta_r)

    All relations conduct alike at the start (:math:`\theta = 0`). The rate :math:`\rho > 0` says
    how fast it learns next to other parameters.
    """

    def __init__(self, num_relations: int, rate: float = 1.0) -> None:
        super().__init__()
        check_positive_int("num_relations", num_relations)
        check_positive("rate", rate)
        self.rate = rate
        self.theta = Parameter(torch.empty(num_relations))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Make all relations conduct alike again."""
        torch.nn.init.zeros_(self.theta)

    @property
    def of_relations(self) -> Tensor:
        """The conductance of each relation, [R]."""
        return FLOOR + (1 - FLOOR) * torch.sigmoid(self.rate * self.theta)

    def forward(self, edge_type: Tensor) -> Tensor:
        """Look up the conductance [E] of edges by their relations [E]."""
        return self.of_relations.index_select(0, edge_type.long())

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}({self.theta.numel()})"


class Relations(dict[str, float]):
    """The conductance of each relation, by its name; prints as a table.

    Attributes:
        error: the standard error of each conductance, by the name of its relation, if known.
    """

    def __init__(
        self, names: Iterable[object], conductance: Tensor, error: Tensor | None = None
    ) -> None:
        words = [" ".join(each) if isinstance(each, tuple) else str(each) for each in names]
        super().__init__(zip(words, conductance.tolist(), strict=True))
        self.error: dict[str, float] = {}
        if error is not None:
            self.error = dict(zip(words, error.tolist(), strict=True))

    def __repr__(self) -> str:
        width = max(map(len, ("relation", *self)))
        lines = [f"{'relation':<{width}}  conductance" + ("  error" if self.error else "")]
        for name, value in self.items():
            error = f"  {self.error[name]:5.3f}" if self.error else ""
            lines.append(f"{name:<{width}}  {value:11.3f}{error}")
        return "\n".join(lines)
