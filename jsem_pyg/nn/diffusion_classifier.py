"""Class probabilities that spread over the graph, and stop where they disagree."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.nn.dense.linear import Linear
from torch_geometric.typing import Adj, OptTensor

from .._checks import check_edge_index, check_points, check_positive, check_positive_int
from .anisotropic_diffusion import AnisotropicDiffusion

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
        if not 0 < floor < 1:
            raise ValueError(f"Expected 'floor' to lie in (0, 1) (got {floor!r}).")
        self.sharpness = sharpness
        self.floor = floor

    def forward(self, edge_attr: OptTensor, x_i: Tensor, x_j: Tensor) -> Tensor:
        """Return the conductance of each edge."""
        agreement = (self._sharpen(x_i) * self._sharpen(x_j)).sum(-1)
        return self.floor + (1 - self.floor) * agreement

    def _sharpen(self, probability: Tensor) -> Tensor:
        # Not of zero, where powers below one have no gradient.
        positive = probability.clamp(min=torch.finfo(probability.dtype).tiny)
        return normalize_rows(positive.pow(self.sharpness))

    def __repr__(self) -> str:
        return f"{self.__class__.__name__}(sharpness={self.sharpness}, floor={self.floor})"


class DiffusionClassifier(torch.nn.Module):
    r"""A linear classifier whose probabilities diffuse, twice: everywhere, then within classes.

    .. math::
        \mathbf{Q} &= \mathrm{softmax}(\hat{\mathbf{X}} \mathbf{W} + \mathbf{b})

        \mathbf{P} &= b\left( e^{-t \mathbf{L}} \mathbf{Q} \right)

        \mathbf{P}^{\prime} &= b\left( e^{-t \mathbf{L}_{\theta}} \mathbf{P} \right), \qquad
        w^{\prime}_{ij} = w_{ij} \, h(\mathbf{p}_i, \mathbf{p}_j)

    with the centred features :math:`\hat{\mathbf{X}}`, their rows of length one, and the
    conductance :class:`AgreementConductance`: an edge conducts as far as the probabilities around
    its two ends agree. What is learned, :math:`\mathbf{W}`, is one projection shared by both ends
    of every edge. The balance :math:`b` divides each class by a power of its mean, so that large
    classes do not swallow small ones, and brings the sum of each row back to one.

    :func:`~jsem_pyg.training.fit` trains it without labels, by self-training; it is differentiable,
    so that it may as well be trained with labels like any other model.

    Args:
        in_channels (int): Size of each input sample.
        num_classes (int): Number :math:`C` of classes or clusters.
        t (float): Diffusion time :math:`t > 0`; :func:`~jsem_pyg.training.fit` chooses another.
        learn_t (bool): Whether gradients reach :math:`t`.
        balance (float): The power of the class means: 0 for none, 1 to draw the classes towards
            equal size.
        conductance (torch.nn.Module, optional): Instead of :class:`AgreementConductance`: a
            module as in :class:`AnisotropicDiffusion`; it sees probabilities.
        **kwargs (optional): Of both diffusions: `normalization`, `degree`, `tol` and `backend`, as
            in :class:`AnisotropicDiffusion`.

    Shapes:
        - **input:**
          node features :math:`(|\mathcal{V}|, D)`,
          edge indices :math:`(2, |\mathcal{E}|)`, both directions of every edge,
          edge weights :math:`(|\mathcal{E}|)` *(optional)*
        - **output:** class probabilities :math:`(|\mathcal{V}|, C)`

    Example:
        >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> p = DiffusionClassifier(3, 2)(torch.eye(3), edge_index)
        >>> torch.allclose(p.sum(-1), torch.ones(3))
        True
    """

    def __init__(
        self,
        in_channels: int,
        num_classes: int,
        t: float = 5.0,
        learn_t: bool = True,
        balance: float = 0.5,
        conductance: torch.nn.Module | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        check_positive_int("in_channels", in_channels)
        check_positive_int("num_classes", num_classes)
        check_positive("t", t)
        if not 0 <= balance <= 1:
            raise ValueError(f"Expected 'balance' to lie in [0, 1] (got {balance!r}).")
        self.in_channels = in_channels
        self.num_classes = num_classes
        self.balance = balance
        self.lin = Linear(in_channels, num_classes, weight_initializer="glorot")
        self.isotropic = AnisotropicDiffusion(0, t=t, learn_t=learn_t, **kwargs)
        conductance = AgreementConductance() if conductance is None else conductance
        self.anisotropic = AnisotropicDiffusion(0, t=t, conductance=conductance, **kwargs)
        self.anisotropic.time = self.isotropic.time  # one time for both

    def reset_parameters(self) -> None:
        """Draw the linear map anew, and go back to the initial time."""
        self.lin.reset_parameters()
        self.isotropic.reset_parameters()
        self.anisotropic.reset_parameters()

    @property
    def t(self) -> Tensor:
        """The diffusion time, > 0."""
        return self.isotropic.t

    def forward(self, x: Tensor, edge_index: Adj, edge_weight: OptTensor = None) -> Tensor:
        """Return class probabilities; see the class for shapes."""
        return self.spread(self.classify(x), edge_index, edge_weight)

    def classify(self, x: Tensor) -> Tensor:
        """Probabilities [N, C] of each node by its own features, before any diffusion."""
        check_points("x", x)
        if x.size(1) != self.in_channels:
            raise ValueError(f"Expected 'x' to have {self.in_channels} channels (got {x.size(1)}).")
        return self.lin(standardize(x)).softmax(-1)

    def spread(self, q: Tensor, edge_index: Adj, edge_weight: OptTensor = None) -> Tensor:
        """Diffuse non-negative scores [N, C] everywhere, and then where they agree: [N, C]."""
        p = self._balance(self.isotropic(q, edge_index, edge_weight))
        return self._balance(self.anisotropic(p, edge_index, edge_weight))

    def conductances(self, x: Tensor, edge_index: Tensor, edge_weight: OptTensor = None) -> Tensor:
        """How well each edge conducts in the second diffusion: [E], in (0, 1].

        Args:
            x: [N, D] node features.
            edge_index: [2, E], both directions of every edge; not a sparse matrix, whose entries
                have no order that the result could follow.
            edge_weight: [E], or None for ones.

        Raises:
            TypeError: If `edge_index` is not a tensor.
            ValueError: If a shape does not fit.
        """
        q = self.classify(x)
        check_edge_index(edge_index, x.size(0))
        p = self._balance(self.isotropic(q, edge_index, edge_weight))
        source, target = edge_index
        return self.anisotropic.conductance(None, p[target], p[source])

    def _balance(self, p: Tensor) -> Tensor:
        p = p.clamp(min=0)  # a series that is cut may end a little below
        return normalize_rows(p / p.mean(0).clamp(min=1e-6) ** self.balance)

    def __repr__(self) -> str:
        return (
            f"{self.__class__.__name__}({self.in_channels}, {self.num_classes}, "
            f"t={self.isotropic.time}, balance={self.balance})"
        )


def standardize(x: Tensor) -> Tensor:
    """Centred features with rows of length one; a row at the mean stays zero."""
    return F.normalize(x - x.mean(0))


def normalize_rows(p: Tensor) -> Tensor:
    """Rows >= 0 that sum to one; a row of zeros knows nothing: all classes are as likely."""
    total = p.sum(-1, keepdim=True)
    return torch.where(total > 0, p / total.clamp(min=torch.finfo(p.dtype).tiny), 1 / p.size(-1))
