"""The scores of a plan that gives every node at most one partner: N numbers instead of N K."""

from typing import NamedTuple

import torch
from torch import Tensor


class AssignmentScores(NamedTuple):
    """log2 T of a plan with all mass of a source point at its partner, who has no other.

    Implements :class:`~jsem_pyg.transport.sinkhorn.scores.Scores`.
    """

    partner: Tensor  # [N] int64 the target point of each source point; -1: it has no mass
    mass: Tensor  # [N] log2 of the mass that goes there
    num_targets: int  # K

    @property
    def shape(self) -> tuple[int, int]:
        """N and K."""
        return self.partner.numel(), self.num_targets

    @property
    def like(self) -> Tensor:
        """A tensor of the type and on the device of the scores."""
        return self.mass

    def rows(self, start: int, stop: int) -> Tensor:
        """The rows from `start` up to `stop`: [R, K]."""
        partner = self.partner[start:stop]
        block = self.mass.new_full((partner.numel(), self.num_targets), -torch.inf)
        row = torch.nonzero(partner >= 0)[:, 0]
        block[row, partner[row]] = self.mass[start:stop][row]
        return block

    def pairs(self) -> tuple[Tensor, Tensor]:
        """The nodes with mass and their partners: [M] each."""
        row = torch.nonzero(self.partner >= 0)[:, 0]
        return row, self.partner[row]

    def transposed(self) -> "AssignmentScores":
        """Those of the plan from the target to the source."""
        source, target = self.pairs()
        partner = self.partner.new_full((self.num_targets,), -1)
        partner[target] = source
        mass = self.mass.new_full((self.num_targets,), -torch.inf)
        mass[target] = self.mass[source]
        return AssignmentScores(partner, mass, self.partner.numel())
