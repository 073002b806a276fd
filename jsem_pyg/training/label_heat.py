"""Heat of labelled nodes: class scores of all nodes, learned from labels that are held out."""

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module, Parameter

from ..diffusion import heat_diffusion
from ..nn.conductance import conduct
from ..nn.relation_conductance import RelationConductance
from .label_graph import LabelGraph
from .label_spread import LEAST

_RATE = 0.3  # of all but the form; chosen on DBLP without the nodes of its test sets
_REACH = 3.0  # of the logarithms of time and sharpness, around their start
_REFITS = 5  # steps of L-BFGS from the learned conductances to those that a fold alone prefers


class LabelHeat(Module):
    """Diffuses known labels [N] (-1: unknown) from a time on, where edges learn how to conduct."""

    def __init__(self, graph: LabelGraph, labels: Tensor, form: Module | None, t: float) -> None:
        super().__init__()
        self.graph, self.labels, self.start = graph, labels, t
        self.form = copy.deepcopy(form)
        self.relation: RelationConductance | None = None
        if graph.edge_type is not None:
            self.relation = RelationConductance(len(graph.names)).to(graph.weight)
        self.log_t = Parameter(torch.zeros((), dtype=torch.float64))
        self.log_sharpness = Parameter(graph.weight.new_zeros(()))
        self.balance = Parameter(graph.weight.new_zeros(()))
        num_edges = graph.structure.row_sums(graph.weight.new_ones(graph.structure.num_slots))
        share = F.one_hot(labels.clamp(min=0)) / num_edges.clamp(min=1)[:, None]
        self.share = share * (labels >= 0)[:, None]  # of each node in the heat of its class
        self.eval()

    def forward(self, is_source: Tensor) -> Tensor:
        """Return logits of the classes [F, N, C], from the heat of sources [F, N]."""
        start = self.share * is_source[..., None]
        start = start / start.sum(1, keepdim=True)
        columns = start.transpose(0, 1).flatten(1)  # all folds diffuse at once
        weight = self.conducting(self.graph.weight)
        heat = heat_diffusion(columns, self.graph.structure, weight, self.time())
        heat = heat.view(start.size(1), len(start), -1).transpose(0, 1).clamp(min=0)
        heat = heat * (-self.balance * heat.sum(1, keepdim=True).log()).exp()
        return (heat + LEAST).log() * _bounded(self.log_sharpness)

    @torch.no_grad()
    def logits(self, known: Tensor) -> Any:
        """Return logits [N, C] by known labels [N], -1 where unknown."""
        return self(known[None] >= 0)[0]

    def time(self) -> Tensor:
        """Return the diffusion time."""
        return self.start * _bounded(self.log_t)

    def of_relations(self) -> Tensor:
        """Return the conductance of each relation [R], as a share of the largest with edges."""
        assert self.relation is not None
        assert self.graph.is_open is not None
        found = self.relation.of_relations * self.graph.is_open
        return found / found.max()

    def conducting(self, weight: Tensor) -> Tensor:
        """Return weights [E] times what their edges conduct, the mean of both directions."""
        structure, _, edge_attr, edge_type = self.graph[:4]
        h = conduct(structure, self.share, edge_attr, self.form, by_ends=False)
        h = torch.ones_like(weight) if h is None else h
        h = h if edge_type is None else h * self.of_relations()[edge_type]
        total = structure.symmetric(structure.to_slots(weight * h))
        return structure.share_among_edges(total, weight)

    def held_out_loss(self, is_source: Tensor) -> Tensor:
        """Return the cross-entropy of the labels that are no sources [F, N] in their fold."""
        is_held_out = (self.labels >= 0) & ~is_source
        target = self.labels.expand_as(is_source)[is_held_out]
        logits = self(is_source)[is_held_out]
        share = 1 / torch.bincount(target, minlength=logits.size(1)).clamp(min=1)
        return F.cross_entropy(logits, target, share.to(logits))

    def learn(self, is_source: Tensor, lr: float, steps: int) -> float:
        """Learn by Adam from draws of sources [F, N]; return the loss of held-out labels."""
        of_form = [] if self.form is None else list(self.form.parameters())
        others = [each for name, each in self.named_parameters() if not name.startswith("form.")]
        groups = [{"params": others, "lr": _RATE}, {"params": of_form, "lr": lr}]
        optimizer = torch.optim.Adam(groups)
        self.train()
        for _ in range(steps):
            optimizer.zero_grad()
            self.held_out_loss(is_source).backward()
            optimizer.step()
            with torch.no_grad():
                self.balance.clamp_(0, 1)
        self.eval()
        with torch.no_grad():
            return float(self.held_out_loss(is_source))

    def without_weakest(self) -> LabelGraph | None:
        """Return the graph whose weakest relation is closed; None if none other is open."""
        is_open = self.graph.is_open
        if is_open is None or int(is_open.sum()) < 2:
            return None
        conductance = self.of_relations().detach().where(is_open, torch.inf)
        return self.graph._replace(is_open=is_open & (conductance > conductance.min()))

    def error_of_relations(self, is_source: Tensor) -> Tensor:
        """Fit the relations to each fold alone; return the standard error [R] over folds."""
        assert self.relation is not None
        theta, fits = self.relation.theta, []
        learned = theta.detach().clone()
        for fold in is_source.split(1):
            optimizer = torch.optim.LBFGS([theta], max_iter=_REFITS, line_search_fn="strong_wolfe")

            def loss(fold: Tensor = fold, optimizer: Any = optimizer) -> Tensor:
                optimizer.zero_grad()
                value = self.held_out_loss(fold)
                value.backward(inputs=[theta])
                return value

            optimizer.step(loss)
            with torch.no_grad():
                fits.append(self.of_relations())
                theta.copy_(learned)
        return torch.stack(fits).std(0) / len(fits) ** 0.5


def _bounded(logarithm: Tensor) -> Tensor:
    """Return the exponential of a number near zero, and at most e^3 or e^-3 of others."""
    return (_REACH * (logarithm / _REACH).tanh()).exp()
