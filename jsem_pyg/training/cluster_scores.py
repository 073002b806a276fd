"""Scores numbers of clusters by the heat that stays in them, and by what features tell of them."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .._precision import center_and_normalize
from ..diffusion.times import MARGIN, heat_coefficients, heat_degree
from ..operators.laplacian import laplacian_operator
from .clusters import merged_clusters
from .seeds import Purpose, derive_generator, seeded_rng
from .training_graph import TrainingGraph

TIMES = (5.0, 20.0)  # diffusion times of the features; every number takes the better one
LENIENT = 0.25  # the power of the classifier's agreement in the score of further levels
STABILITY_TIME = 5.0  # of the heat that may leave a cluster, chosen on development sets
TOLERANCE = 1e-3  # of the heat
CLOUD_LARGEST = 8  # clusters of a cloud; its best score has three to five
NUM_CHANNELS = 64  # more of them cost time and add little about clusters
SHRINKAGE = 0.01  # of the classifier, as a share of the mean variance


def score_numbers(
    graph: TrainingGraph, largest: int, times: list[float], seed: int
) -> tuple[dict[int, np.ndarray], Tensor]:
    """Score each number of clusters at times [S], [2, S], and find the most clusters, [N].

    Agreement counts fully in the first row, and less in the second, that of the levels.
    """
    x = fewer_channels(graph.x, seed)
    classifier = HalvesClassifier(x, seed)
    scores = {1: np.zeros((2, len(times)))}
    finest = torch.zeros(len(x), dtype=torch.int64, device=x.device)
    for _, z in graph.diffused_rows(x, TIMES):
        for count, labels in merged_clusters(z, largest, seed):
            agreement = agreement_of(classifier, labels, count)
            powers = np.array([agreement, max(agreement, 0.0) ** LENIENT])[:, None]
            score = powers * stability(graph, labels, count, times)
            if count > max(scores):  # paths go from the largest number down
                finest = labels
            scores[count] = np.maximum(score, scores.get(count, score))
    return dict(sorted(scores.items())), finest


def agreement_of(classifier: "HalvesClassifier", labels: Tensor, count: int) -> float:
    """Compute the adjusted Rand index of clusters [N] and what the classifier predicts."""
    from sklearn.metrics import adjusted_rand_score

    predicted = torch.empty_like(labels)
    for test, scores in classifier.scores(labels, count):
        predicted[test] = scores.argmax(1)
    return float(adjusted_rand_score(predicted.cpu(), labels.cpu()))


@torch.no_grad()
def stability(
    graph: TrainingGraph, labels: Tensor, count: int, times: Sequence[float]
) -> np.ndarray:
    """Compute how likely heat is in its cluster at each time [S], less what chance gives."""
    source, weight = graph.edge_index[0], graph.edge_weight
    weight = graph.x.new_ones(len(source)) if weight is None else weight
    share = torch.zeros(len(labels), dtype=torch.float64)
    share.index_add_(0, source.cpu(), weight.cpu().double())
    share /= share.sum().clamp(min=torch.finfo(share.dtype).tiny)  # zero without edges
    root = share.sqrt().to(graph.x.device, torch.float32)  # more digits than TOLERANCE has
    at_first = F.one_hot(labels, count) * root[:, None]
    # <a, exp(-tL) a> is a sum of <a, T_k(S) a>, whatever the times; T_j(S) a and the next one give
    # those for 2j and 2j + 1.
    matrix = laplacian_operator(graph.structure, weight, dtype=at_first.dtype).matrix
    degree = heat_degree(max(times), MARGIN * TOLERANCE)
    before, term = at_first, matrix.apply(at_first)
    moments = [at_first.square().sum().item(), (at_first * term).sum().item()]
    while len(moments) <= degree:
        moments.append(2 * term.square().sum().item() - moments[0])
        before, term = term, 2 * matrix.apply(term) - before
        moments.append(2 * (before * term).sum().item() - moments[1])
    coefficients = heat_coefficients(torch.tensor(times, dtype=torch.float64), degree).numpy()
    chance = at_first.square().sum(0).square().sum().item()
    stayed: np.ndarray = moments[: degree + 1] @ coefficients - chance
    return stayed


class HalvesClassifier:
    """Predicts classes from x [N, D] by ridge regression, each half of the nodes by the other."""

    def __init__(self, x: Tensor, seed: int) -> None:
        generator = derive_generator(seed, Purpose.VALIDATION)
        first = torch.rand(len(x), generator=generator, dtype=torch.float32) < 0.5
        self._tests = [first.to(x.device), ~first.to(x.device)]
        self._x = torch.cat([x, x.new_ones(len(x), 1)], dim=1).double()
        self._roots = []
        for test in self._tests:
            gram = self._x[~test].T @ self._x[~test]
            shrinkage = SHRINKAGE * gram.trace() / len(gram) + torch.finfo(gram.dtype).tiny
            self._roots.append(
                torch.linalg.cholesky(gram + shrinkage * torch.eye(len(gram)).to(gram))
            )

    def scores(self, labels: Tensor, count: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield each half, and its scores [N / 2, C] by the `labels` [N] of the other half."""
        for test, root in zip(self._tests, self._roots, strict=True):
            sums = self._x.new_zeros(count, self._x.size(1))
            sums.index_add_(0, labels[~test], self._x[~test])
            yield test, self._x[test] @ torch.cholesky_solve(sums.T, root)


def fewer_channels(x: Tensor, seed: int) -> Tensor:
    """Centre the rows, make them of length one, and keep the leading components of many."""
    x = center_and_normalize(x)
    if min(x.shape) <= NUM_CHANNELS:
        return x
    with seeded_rng(x.device, seed, Purpose.SKETCH):
        *_, components = torch.svd_lowrank(x, NUM_CHANNELS)
    return x @ components
