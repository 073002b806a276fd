"""Anderson mixing: the next iterate of a fixed-point iteration from its last few."""

import torch
from torch import Tensor

MEMORY = 6
_JUMP = 10.0  # a residual that grew by this factor: the history is of no use then


class Mixer:
    """Mixes iterates of x -> x + r(x), for a batch of problems at once; residuals are weighted.

    Anderson, "Iterative procedures for nonlinear integral equations", 1965; in the form of Walker
    and Ni, "Anderson acceleration for fixed-point iterations", SIAM J. Numerical Analysis 49, 2011.
    """

    def __init__(self, weight: Tensor) -> None:
        self.weight = weight
        self.forget()

    def forget(self) -> None:
        """Forget the history."""
        self.steps: list[Tensor] = []  # differences of iterates
        self.changes: list[Tensor] = []  # differences of residuals
        self.last: tuple[Tensor, Tensor] | None = None
        self.size = float("inf")

    def next(self, x: Tensor, residual: Tensor, damping: float = 1.0) -> Tensor:
        """Compute the next iterate [..., K] after x, whose residual r(x) counts `damping` times."""
        size = float((self.weight * residual.square()).sum())
        if size > _JUMP * self.size:
            self.forget()
        self.size = size
        if self.last is not None:
            self.steps = [*self.steps, x - self.last[0]][-MEMORY:]
            self.changes = [*self.changes, residual - self.last[1]][-MEMORY:]
        self.last = (x, residual)
        if not self.changes:
            return x + damping * residual
        changes = torch.stack(self.changes, -2)  # [..., m, K]
        share = self._solve(changes, residual)
        moves = torch.stack(self.steps, -2) + damping * changes
        return x + damping * residual - (share[..., None, :] @ moves)[..., 0, :]

    def _solve(self, changes: Tensor, residual: Tensor) -> Tensor:
        """Find the least-squares weights [..., m] of the last m changes."""
        weighted = (changes * self.weight[..., None, :]).double()  # squares may underflow
        gram = weighted @ changes.transpose(-2, -1).double()
        right = weighted @ residual[..., None].double()
        scale = gram.diagonal(dim1=-2, dim2=-1).sum(-1)[..., None, None].clamp(min=1e-200)
        eye = torch.eye(gram.size(-1), dtype=gram.dtype, device=gram.device)
        solved = torch.linalg.solve(gram + 1e-8 * scale * eye, right)
        return solved[..., 0].to(residual.dtype)
