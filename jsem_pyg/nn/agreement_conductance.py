"""An edge conducts as far as its two ends agree."""

import torch
from torch import Tensor
from torch_geometric.typing import OptTensor

from .._checks import check_between, check_dense, check_float, check_positive
from .._precision import normalize_rows
from ..kernels.edge_dot import edge_dot
from .node_conductance import Ends, NodeConductance

AGREEMENT_FLOOR = 0.05


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

    Shapes:
        - **input:** `edge_attr`, which is not looked at; probabilities of both ends
          :math:`(|\mathcal{E}|, C)`, >= 0, not all zero
        - **output:** conductance :math:`(|\mathcal{E}|)`
    """

    def __init__(self, sharpness: float = 2.0, floor: float = AGREEMENT_FLOOR) -> None:
        super().__init__()
        check_positive("sharpness", sharpness)
        check_between("floor", floor, 0, 1)
        self.sharpness = sharpness
        self.floor = floor

    def project(self, x: Tensor) -> Tensor:
        """Sharpened probabilities: [N, C] -> [N, C]."""
        _check("x", x)
        tiny = torch.finfo(x.dtype).tiny
        # By the largest of a row first, so that no power of it under- or overflows; it cancels.
        relative = x / x.detach().amax(-1, keepdim=True).clamp(min=tiny)
        # Not of zero, where powers below one have no gradient.
        return normalize_rows(relative.clamp(min=tiny).pow(self.sharpness))

    def along(self, edge_attr: OptTensor, z: Tensor, ends: Ends) -> Tensor:
        """The conductance of edges, from the sharpened probabilities of all nodes [N, C].

        No pair of rows an edge is ever made.
        """
        _check("z", z)
        return self.floor + (1 - self.floor) * edge_dot(z, z, *ends)

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(sharpness={self.sharpness}, floor={self.floor})"


def _check(name: str, probability: Tensor) -> None:
    check_float(name, probability)
    check_dense(name, probability)
    if probability.dim() != 2 or probability.size(1) == 0:
        raise ValueError(
            f"Expected '{name}' to have shape [rows, C], a probability for every class (got "
            f"{list(probability.shape)})."
        )
