"""An edge conducts as far as its two ends agree."""

import torch
from torch import Tensor
from torch_geometric.typing import OptTensor

from .._checks import check_between, check_dense, check_float, check_positive

AGREEMENT_FLOOR = 0.05


class AgreementConductance(torch.nn.Module):
    r"""An edge conducts as far as the class probabilities of its ends agree.

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

    def forward(self, edge_attr: OptTensor, x_i: Tensor, x_j: Tensor) -> Tensor:
        """Return the conductance of each edge."""
        for name, probability in (("x_i", x_i), ("x_j", x_j)):
            check_float(name, probability)
            check_dense(name, probability)
        if x_i.dim() != 2 or x_i.shape != x_j.shape:
            raise ValueError(
                "Expected 'x_i' and 'x_j' to have the same shape [E, C], the probabilities of both "
                f"ends (got {list(x_i.shape)} and {list(x_j.shape)})."
            )
        agreement = (self._sharpen(x_i) * self._sharpen(x_j)).sum(-1)
        return self.floor + (1 - self.floor) * agreement

    def _sharpen(self, probability: Tensor) -> Tensor:
        # Not of zero, where powers below one have no gradient.
        positive = probability.clamp(min=torch.finfo(probability.dtype).tiny)
        return normalize_rows(positive.pow(self.sharpness))

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(sharpness={self.sharpness}, floor={self.floor})"


def normalize_rows(p: Tensor) -> Tensor:
    """Rows >= 0 that sum to one; a row of zeros knows nothing: all classes are as likely."""
    total = p.sum(-1, keepdim=True)
    return torch.where(total > 0, p / total.clamp(min=torch.finfo(p.dtype).tiny), 1 / p.size(-1))
