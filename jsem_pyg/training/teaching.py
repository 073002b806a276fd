"""What one round of self-training does: choose the nodes that teach, and let them."""

import torch
import torch.nn.functional as F
from torch import Tensor

from .._groups import group_places
from ..nn import DiffusionClassifier
from ..nn.diffusion_classifier import center_and_normalize

CERTAIN_SHARE = 0.5  # of every class: so many of its nodes teach
LOGIT_SCALE = 10.0  # features have rows of length one: this conditions the classifier's problem
WEIGHT_DECAY = 1e-3
MOST_STEPS = 50  # of L-BFGS


def choose_teachers(p: Tensor, labels: Tensor | None) -> tuple[Tensor, Tensor]:
    """The more certain part of every class, and what they teach.

    Args:
        p: [N, C] probabilities.
        labels: [N] known classes, -1 where unknown, or None; who has one teaches it.

    Returns:
        Whether a node teaches [N], and its class [N].
    """
    certainty, target = p.max(-1)
    place = group_places(certainty, target, p.size(-1), descending=True)
    size = torch.bincount(target, minlength=p.size(-1))
    teaches = place < (CERTAIN_SHARE * size).ceil()[target]
    if labels is not None:
        known = labels >= 0
        teaches, target = teaches | known, torch.where(known, labels, target)
    return teaches, target


def teach(model: DiffusionClassifier, x: Tensor, teaches: Tensor, target: Tensor) -> None:
    """Multinomial logistic regression on the nodes that teach: a new `model.lin`.

    Args:
        model: The classifier.
        x: [N, D] what it is to see of a node.
        teaches: [N] whether a node teaches.
        target: [N] the class that it teaches.
    """
    features = center_and_normalize(x[teaches], x.mean(0)) * LOGIT_SCALE
    target = target[teaches]
    num_classes = model.lin.out_channels
    weight = features.new_zeros(num_classes, x.size(-1), requires_grad=True)
    bias = features.new_zeros(num_classes, requires_grad=True)
    solver = torch.optim.LBFGS([weight, bias], max_iter=MOST_STEPS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        solver.zero_grad()
        logits = F.linear(features, weight, bias)
        loss = F.cross_entropy(logits, target) + WEIGHT_DECAY * weight.square().sum()
        loss.backward()
        return loss

    solver.step(closure)
    with torch.no_grad():
        model.lin.weight.copy_(LOGIT_SCALE * weight)
        model.lin.bias.copy_(bias)


def keep_known(q: Tensor, labels: Tensor | None) -> Tensor:
    """Probabilities [N, C], with certainty where a label is known."""
    if labels is None:
        return q
    certain = F.one_hot(labels.clamp(min=0), q.size(-1)).to(q)
    return torch.where((labels >= 0)[:, None], certain, q)


def cross_entropies(q: Tensor, teaches: Tensor, target: Tensor) -> tuple[float, float]:
    """Cross-entropy of probabilities [N, C] on the nodes that teach, and on the others."""
    surprise = -q.clamp(min=torch.finfo(q.dtype).tiny).log().gather(-1, target[:, None]).squeeze(-1)
    others = surprise[~teaches] if bool((~teaches).any()) else surprise
    return float(surprise[teaches].mean()), float(others.mean())
