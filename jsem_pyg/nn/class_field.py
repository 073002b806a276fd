"""Classes of a trained classifier on its graph, and their extension to new points."""

import copy
from functools import partial
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor

from .._precision import normalize_rows
from ..diffusion.inductive import heat_field
from ..graph import GraphStructure
from .conductance import conduct_between
from .diffusion_classifier import DiffusionClassifier, balance_classes


class ClassField:
    r"""The probabilities of a trained :class:`DiffusionClassifier` on its graph, and beyond.

    A new point is classified by its own features, and receives the diffused probabilities of its
    neighbours in both diffusions, along edges that conduct as far as it agrees with them. They
    receive nothing from it: see :mod:`jsem_pyg.diffusion.inductive`. Its probabilities do not
    depend on other new points.

    Args:
        model: in evaluation mode; normalised by "sym" or "rw".
        q: [N, C] what diffuses: `model.classify(x)`, or that with certainty if classes are
            known.
        structure: the graph.
        edge_weight: [E] its weights.
        by_graph: q comes from the graph, not from the features: a new point begins with the mean
            of its neighbours, in place of its own classification.

    Attributes:
        p: [N, C] the probabilities of the nodes.
        conductance: [E] how well each edge conducts in the second diffusion.
    """

    @torch.no_grad()
    def __init__(
        self,
        model: DiffusionClassifier,
        q: Tensor,
        structure: GraphStructure,
        edge_weight: Tensor,
        by_graph: bool = False,
    ) -> None:
        # Rounding depends on how many rows a product has; in float64 that is not visible.
        with torch.random.fork_rng(devices=[]):  # a copied Linear of PyG 2.6 draws weights first
            self._model = copy.deepcopy(model).double().eval()
        self._given = None
        if by_graph:
            self._given = q.double()
            self._model.reset_means()  # of other probabilities
            self._model.balance = 0.0  # the graph has told the sizes
        options = model.isotropic.options
        field_of = partial(
            heat_field,
            structure=structure,
            edge_weight=edge_weight,
            t=float(model.t),
            normalization=cast(str, options.normalization),  # None is refused
            tol=options.tol,
        )
        self._first = field_of(q.double())
        self._means = [self._model.isotropic_mean(self._first.heat)]
        self._middle = self._balance(self._first.heat, 0)
        agreement = cast(Tensor, self._model.anisotropic.conduct(structure, self._middle))
        self._second = field_of(self._middle, conductance=agreement)
        self._means.append(self._model.anisotropic_mean(self._second.heat))
        self.conductance = agreement.to(q.dtype)
        self.p = self._balance(self._second.heat, 1).to(q.dtype)

    @torch.no_grad()
    def at(self, x_new: Tensor, neighbor: Tensor, weight: Tensor) -> Tensor:
        """Compute the classes [M, C] of points [M, D], by neighbours [M, k] and weights [M, k]."""
        if self._given is None:
            q = self._model.classify(x_new.double())
        else:
            # Without neighbours all classes are as probable.
            q = F.embedding_bag(
                neighbor, self._given, mode="sum", per_sample_weights=weight.double()
            )
            q = normalize_rows(q)
        middle = self._balance(self._first.at(q, neighbor, weight), 0)
        new = len(self._middle) + torch.arange(len(x_new), device=neighbor.device)
        links = torch.stack([neighbor, new[:, None].expand_as(neighbor)]).flatten(1)
        form = cast(torch.nn.Module, self._model.anisotropic.conductance)
        agreement = conduct_between(form, None, torch.cat([self._middle, middle]), links)
        agreement = agreement.view_as(neighbor)
        p = self._balance(self._second.at(middle, neighbor, weight * agreement), 1)
        return p.to(self.p.dtype)

    def _balance(self, p: Tensor, diffusion: int) -> Tensor:
        # Not below zero: a series that is cut may end there.
        mean = self._means[diffusion] / self._model.class_share
        return balance_classes(p.clamp(min=0), mean, self._model.balance)
