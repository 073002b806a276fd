"""Edge features that help to decide whether the two ends are of one class."""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module, Parameter

from .._precision import unit_rows
from ..curvature import forman_curvature, robust_standardize
from ..diffusion import heat_diffusion
from ..kernels.edge_dot import edge_dot
from ..nn import AgreementConductance
from .heat_classifier import logistic_regression
from .training_graph import TrainingGraph, keep_known

NUM_FEATURES = 3
_FARTHEST = 3.0  # deviations of a curvature from the median; those of hubs have a long tail
_FLOOR, _SLOPE, _OPEN = 1e-2, -2.0, 1.0  # at first an edge of median curvature conducts 0.73


class EdgeFeatures:
    """Agreement of class probabilities around both ends, curvature, and cosine of the ends."""

    @torch.no_grad()
    def __init__(self, graph: TrainingGraph, t: float) -> None:
        self.graph, self.t = graph, t
        diffused = heat_diffusion(graph.x, graph.structure, graph.edge_weight, t)
        self.z = unit_rows(diffused)  # [N, D]
        curvature = forman_curvature(graph.edge_index, graph.edge_weight, graph.x.size(0))
        curvature = robust_standardize(curvature).clamp(-_FARTHEST, _FARTHEST)
        # The cosine of both ends before diffusion, standardised.
        x, (source, target) = unit_rows(graph.x), graph.edge_index.long()
        cosine = edge_dot(x, x, source, target)
        cosine = (cosine - cosine.mean()) / cosine.std().clamp(min=1e-6)
        self._columns = torch.stack([curvature.to(graph.x), cosine], -1)  # [E, 2]

    @torch.no_grad()
    def __call__(self, labels: Tensor) -> Tensor:
        """The features [E, 3] that follow from labels [N], -1 where unknown; each class has one."""
        q = logistic_regression(self.z, labels)
        weight, structure = self.graph.edge_weight, self.graph.structure
        p = heat_diffusion(keep_known(q, labels), structure, weight, self.t / 2).clamp(min=0)
        form = AgreementConductance(floor=1e-4)
        agreement = form(p, self.graph.edge_index.long()).log() + 1
        return torch.cat([agreement[:, None], self._columns], -1)


class EdgeGate(Module):
    """A conductance [E] that rises with each of the edge features [E, 3]."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = Parameter(torch.empty(NUM_FEATURES))
        self.bias = Parameter(torch.empty(()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Return to small slopes."""
        torch.nn.init.constant_(self.slope, _SLOPE)
        torch.nn.init.constant_(self.bias, _OPEN)

    def forward(self, edge_attr: Tensor) -> Tensor:
        """Return the conductance of edges, in (0, 1)."""
        logit = edge_attr @ F.softplus(self.slope) + self.bias
        return _FLOOR + (1 - _FLOOR) * torch.sigmoid(logit)
