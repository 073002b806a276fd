"""Diffusion maps, as a transformer of scikit-learn's."""

from typing import Any, Self

import numpy as np
import torch
from sklearn.base import ClassNamePrefixFeaturesOutMixin
from torch import Tensor

from .._checks import check_nonnegative, check_positive_int
from ..diffusion import low_modes
from .neighbor_estimator import NeighborTransformer

_ROUGHEST = 0.9  # the eigenvalue above which a mode says little of points between its nodes


class DiffusionMap(ClassNamePrefixFeaturesOutMixin, NeighborTransformer):
    r"""Embeds points by the smoothest modes of their neighbour graph: a diffusion map.

    .. math::
        \mathbf{y}_i = (e^{-t \lambda_1} \psi_{1i}, \dots, e^{-t \lambda_C} \psi_{Ci})

    with the lowest eigenvalues above zero, and modes, of :math:`\mathbf{L} = \mathbf{I} -
    \mathbf{D}^{-1} \mathbf{W}` (:func:`jsem_pyg.diffusion.low_modes`). Distances in it
    say how differently heat has spread from two points after the time t. For t = 0 these are
    Laplacian eigenmaps, a spectral embedding. Coifman and Lafon count steps of a random walk,
    not time: :math:`(1 - \lambda)^t`.

    A new point, joined to its nearest fitted points with the weights w_j of the graph's kernel,
    has :math:`\psi(x) = \sum_j w_j \psi_j / \sum_j w_j / (1 - \lambda)`, the formula of Nystrom;
    :math:`1 - \lambda` counts as 0.1 at least. One that is equal to a fitted point becomes what
    that became.

    Args:
        n_components: C, the number of columns of the embedding.
        n_neighbors, metric, scale, kernel: as in :class:`HeatDiffusion`.
        t: diffusion time, >= 0.
        random_state: of the modes' first guess and of an approximate search.

    Attributes:
        embedding_: [N, C] the embedding of the fitted points.
        eigenvalues_: [C] the eigenvalues, ascending; each part of the graph has another one, zero,
            which is left out with its constant mode.
        n_neighbors_, metric_, scale_, n_features_in_, feature_names_in_: as in
            :class:`HeatDiffusion`.

    Sources: Coifman and Lafon, "Diffusion maps", Applied and Computational Harmonic Analysis 21,
    2006; Belkin and Niyogi, "Laplacian eigenmaps", Neural Computation 15, 2003.

    Example:
        >>> angle = np.linspace(0, 6.28, 200, endpoint=False)
        >>> X = np.stack([np.cos(angle), np.sin(angle)], axis=1)
        >>> diffusion_map = DiffusionMap(n_components=2, n_neighbors=5, scale=None).fit(X)
        >>> diffusion_map.transform(X[:3] + 0.001).shape
        (3, 2)
    """

    def __init__(
        self,
        n_components: int = 2,
        *,
        n_neighbors: int = 15,
        metric: str = "auto",
        scale: str | None = "auto",
        t: float = 1.0,
        kernel: str | None = "gaussian",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        super().__init__(
            n_neighbors, metric=metric, scale=scale, t=t, kernel=kernel, random_state=random_state
        )

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the smoothest modes of the neighbour graph of X, as in :class:`HeatDiffusion`."""
        check_positive_int("n_components", self.n_components)
        check_nonnegative("t", self.t)
        with self._threads(X):
            self._fit_graph(X)
            structure, edge_weight = self._graph.edges
            constant = structure.num_components
            most = structure.num_nodes - constant
            if self.n_components > most:
                raise ValueError(
                    f"Expected 'n_components' to be at most {most}, the number of modes that are "
                    f"not constant (got {self.n_components})."
                )
            value, mode = low_modes(
                structure,
                self.n_components + constant,
                edge_weight.double(),
                normalization="rw",
                seed=self._seed,
            )
        value, mode = value[constant:], mode[:, constant:] * len(mode) ** 0.5
        self.eigenvalues_ = value.numpy()
        self._step = (1 - value).clamp(min=1 - _ROUGHEST).to(edge_weight.dtype)
        self._n_features_out = self.n_components
        self._end_fit((mode * torch.exp(-float(self.t) * value)).to(edge_weight.dtype))
        return self

    def _at(self, x: Tensor, neighbor: Tensor, weight: Tensor) -> Tensor:
        """Compute the modes [m, C] at new points; zero at a point without neighbours."""
        share = weight / weight.sum(1, keepdim=True).clamp(min=torch.finfo(weight.dtype).tiny)
        return (share.unsqueeze(-1) * self._of_nodes[neighbor]).sum(1) / self._step
