"""What people know of two graphs besides their edges: some partners, features, kinds of edges."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array, dia_array, issparse
from scipy.special import rel_entr
from torch import Tensor
from torch_geometric.data import Data

from ..._checks import check_finite, check_integers, check_signal_range
from ..costs.adjacency import AdjacencyCost
from ..problem.inputs import read_known_pairs
from .assignment import pulled, sparse_rows
from .beliefs import Beliefs, Layer, find_beliefs, from_scores, make_layer
from .branches import MOST_BRANCHED, is_sparse, likely_pairs
from .confidence import edge_confidence, pattern
from .features import known_features
from .likelihood import FeatureLikelihood
from .pair import NEARLY, padded
from .profiled import MOST_PROFILED
from .search import search_assignment

Array = NDArray[Any]

FEW_KNOWN = 0.03  # share of nodes below which edges alone are searched, too
MOST_HEATED = 128  # known pairs, beyond which their heat has nothing to add
MOST_AGREE = 0.95  # share of known pairs, from which all of them are followed
LEAST_BITS = 0.5  # of features, beside known pairs
GOLDEN = (5**0.5 - 1) / 2  # whose multiples, modulo one, lie apart


@dataclass(frozen=True, eq=False)
class Knowledge:
    """Known pairs [2, M], features of both sides, and the edges of both sides kind by kind."""

    pairs: Array
    features: tuple[Any, Any] | None  # [N, d] and [K, d] float32, dense or CSR
    feature_weight: float
    kinds: list[tuple[csr_array, csr_array]] | None
    rival: Array | None = None  # partners [N] that are found without types of edges

    def typed(self, source: csr_array, target: csr_array) -> tuple[csr_array, csr_array]:
        """Weigh edges by their types, each one differently, from one to five."""
        if not self.kinds:
            return source, target
        first, second = (
            sum((1 + 4 * (k * GOLDEN % 1)) * pattern(each) for k, each in enumerate(side))
            for side in zip(*self.kinds, strict=True)
        )
        return first, second

    def layers(self, source: csr_array, target: csr_array) -> list[Layer]:
        """Make a layer of each kind that both sides have."""
        kinds = self.kinds or [(source, target)]
        return [make_layer(*each, self.pairs) for each in kinds if all(side.nnz for side in each)]

    def by_edges(self, source: csr_array, target: csr_array, max_iter: int, seed: int) -> Array:
        """Find partners [N] by edges alone, with a weight for each type if types do not agree."""
        found, kinds = self.rival, self.kinds or [(source, target)]
        if found is None or _agree(source, target, kinds, found)[1] < NEARLY:
            found = search_assignment(*self.typed(source, target), max_iter, seed)[-1][1]
        return found


def read_knowledge(
    known_pairs: Tensor | None,
    features: tuple[Any, Any] | None,
    feature_weight: float,
    edge_type: tuple[Tensor, Tensor] | None,
    sides: tuple[Any, Any],
    costs: tuple[AdjacencyCost, AdjacencyCost],
) -> Knowledge | None:
    """Read and check arguments of :func:`.match_graphs`; None if nothing is given."""
    known_pairs = read_known_pairs(known_pairs, *costs)
    if known_pairs is None and features is None and edge_type is None:
        return None
    pairs = np.empty((2, 0), np.int64)
    if known_pairs is not None:
        pairs = known_pairs.cpu().numpy()
        for side, name in zip(pairs, ("source", "target"), strict=True):
            node, count = np.unique(side, return_counts=True)
            if (count > 1).any():
                raise ValueError(
                    f"Expected 'known_pairs' to have each node at most once (got {name} node "
                    f"{node[count > 1][0]} {count.max()} times)."
                )
    if features is not None:
        features = _read_features(features, costs)
    kinds = None if edge_type is None else _read_kinds(edge_type, sides, costs)
    return Knowledge(pairs, features, feature_weight, kinds)


def match_by_knowledge(
    source: csr_array, target: csr_array, knowledge: Knowledge, max_iter: int, seed: int
) -> tuple[Beliefs, str]:
    """Find probabilities [N, K] of partners, and how, in words.

    Features that turn out to say next to nothing are left out if pairs are known. Known pairs may
    be wrong. So in graphs of up to 2,000 nodes or so, what follows from all of them competes with
    what follows from those that searches along edges agree with: by common edges and known pairs,
    in nats. Pairs that the winner leaves keep their mass, but lead nobody, unless they are few.
    """
    pairs = knowledge.pairs
    if knowledge.features is not None:
        features = FeatureLikelihood(*knowledge.features, seed, knowledge.feature_weight)
        start = from_scores(*features.start(), target.shape[0])
        found = find_beliefs(knowledge.layers(source, target), pairs, start, features)
        if features.bits() > LEAST_BITS or not pairs.size:
            bits = features.bits()
            return found._replace(bits=bits), f"belief propagation, features {bits:.2f} bits"
    believe = partial(_believe, (source, target), (max_iter, seed))
    if not pairs.size or source.shape[0] * target.shape[0] > MOST_PROFILED:
        return believe(knowledge)
    best, agrees = knowledge.by_edges(source, target, max_iter, seed), pairs[0] >= 0
    rivals: list[Any] = []
    typed, nats = knowledge.typed(source, target), partial(nats_of_types, source, target, knowledge)
    while not rivals or (agrees != rivals[-1][0]).any():
        rivals.append((agrees, *believe(replace(knowledge, pairs=pairs[:, agrees], rival=best))))
        answer = search_assignment(*typed, max_iter, seed, rivals[-1][1].shares)[-1][1]
        best = max(best, answer, key=nats)
        agrees = best[pairs[0]] == pairs[1]
    winner = max(rivals, key=lambda each: nats(_likeliest(each[1].shares)))
    trusted, found, name = rivals[0] if winner[0].mean() >= MOST_AGREE else winner
    fixed = csr_array((np.ones(len(trusted), np.float32), tuple(pairs)), found.shares.shape)
    of_known = (found.shares * fixed).sum(1)[pairs[0]]
    of_known[trusted] = found.of_known
    rest = dia_array(((fixed.sum(1) == 0)[None], [0]), (source.shape[0],) * 2) @ found.shares
    name = f"{name}, {trusted.sum()} of {len(trusted)} known pairs agree"
    return Beliefs(csr_array(rest + fixed), of_known), name


def _believe(sides: tuple[Any, Any], limits: Any, known: Knowledge) -> tuple[Beliefs, str]:
    """Find probabilities [N, K] of partners from known pairs that are right, and how, in words.

    If nodes have few neighbours, and only pairs are known, their branches are compared. Otherwise
    beliefs start from known pairs. If these are not many, they start from the heat that spreads
    from known nodes, or, if these are very few, from edges alone.
    """
    pairs, shape = known.pairs, (sides[0].shape[0], sides[1].shape[0])
    if known.kinds is None and is_sparse(*sides) and shape[0] * shape[1] <= MOST_BRANCHED:
        likely = likely_pairs(*padded(*sides), pairs)[: shape[0], : shape[1]].tocsr()
        return Beliefs(likely, edge_confidence(*sides, _likeliest(likely))[pairs[0]]), "branches"
    start, name = csr_array(shape, dtype=np.float32), "belief propagation"
    if pairs.shape[1] < FEW_KNOWN * min(shape):
        begin = known.by_edges(*sides, *limits)
        chance = edge_confidence(*sides, begin).astype(np.float32)
        start = sparse_rows(begin[:, None], chance[:, None], shape[1])
        name = f"belief propagation, from edges{' and their types' if known.kinds else ''}"
    elif pairs.shape[1] <= MOST_HEATED:
        first, second = known_features(*sides, pairs)
        near = FeatureLikelihood(first.numpy(), second.numpy(), limits[1]).start()
        start = from_scores(*near, shape[1])
        name = "belief propagation, from heat of known pairs"
    return find_beliefs(known.layers(*sides), pairs, start), name


def _likeliest(shares: csr_array) -> Array:
    """Find partners [N] of the largest shares [N, K], -1 for none."""
    return np.where(np.diff(shares.indptr) > 0, np.asarray(shares.argmax(axis=1)).reshape(-1), -1)


def nats_of_types(source: csr_array, target: csr_array, known: Knowledge, partner: Array) -> float:
    """Compute what common edges say for partners [N], -1 for none: they are rare, and types agree.

    Each pair has been chosen from all nodes, which takes away the logarithm of their number, unless
    it is known.
    """
    kinds = known.kinds or [(source, target)]
    kept, share = _agree(source, target, kinds, partner)
    first, second = (np.array([each.nnz for each in side]) for side in zip(*kinds, strict=True))
    chance = first @ second / max(1, first.sum() * second.sum())
    share = np.clip(share, chance, 1)
    types = rel_entr(share, chance) + rel_entr(1 - share, 1 - chance)
    size, others = len(partner), target.shape[0]
    rarity = np.log(size * others / max(1, source.nnz, target.nnz))
    chosen = (
        np.unique(partner[partner >= 0]).size - (partner[known.pairs[0]] == known.pairs[1]).sum()
    )
    return float(kept * (rarity + types) - chosen * np.log(max(size, others)))


def _agree(source: csr_array, target: csr_array, kinds: Any, partner: Array) -> tuple[float, float]:
    """Count the edges between partners [N], -1 for none, that are kept; the share of one type."""
    nodes = np.flatnonzero(partner >= 0)
    kept, *agree = (
        float((pattern(a)[nodes][:, nodes] * pulled(pattern(b), partner[nodes])).sum() / 2)
        for a, b in [(source, target), *kinds]
    )
    return kept, sum(agree) / max(1, kept)


def _read_features(features: Any, costs: tuple[AdjacencyCost, AdjacencyCost]) -> tuple[Any, Any]:
    """Check features of both sides; as float32, without what all nodes share."""
    if not isinstance(features, tuple | list) or len(features) != 2:
        raise TypeError(
            "Expected 'features' to be two tables [N, d] and [K, d], tensors, arrays or SciPy "
            f"sparse (got {type(features).__name__})."
        )
    sides = []
    for each, cost in zip(features, costs, strict=True):
        if issparse(each):
            table, values = csr_array(each).astype(np.float64), torch.from_numpy(each.tocoo().data)
        else:
            values = torch.as_tensor(each).detach().cpu()
            table = values.double().numpy()
        check_finite("features", values.double())
        check_signal_range("features", values.float())
        if table.ndim != 2 or table.shape[0] != cost.num_points or table.shape[1] == 0:
            raise ValueError(
                f"Expected 'features' to have a row for each of {cost.num_points} nodes and a "
                f"column at least (got shape {list(table.shape)})."
            )
        sides.append(table)
    first, second = sides
    if first.shape[1] != second.shape[1] or issparse(first) != issparse(second):
        raise ValueError(
            "Expected both 'features' to have the same columns, both dense or both sparse (got "
            f"{list(first.shape)} {type(first).__name__} and {list(second.shape)} "
            f"{type(second).__name__})."
        )
    if not issparse(first):
        centre = first.mean(0)
        first, second = first - centre, second - centre
    return first.astype(np.float32), second.astype(np.float32)


def _read_kinds(
    edge_type: Any, sides: tuple[Any, Any], costs: tuple[AdjacencyCost, AdjacencyCost]
) -> list[tuple[csr_array, csr_array]]:
    """Divide the edges of both sides by their types [E] and [E']."""
    if not isinstance(edge_type, tuple | list) or len(edge_type) != 2:
        raise TypeError(
            "Expected 'edge_type' to be two tensors of integers, one for each side's edges (got "
            f"{type(edge_type).__name__})."
        )
    given = []
    for kind, side, name in zip(edge_type, sides, ("source", "target"), strict=True):
        check_integers("edge_type", kind)
        data = side if isinstance(side, Data) else Data(edge_index=side)
        edges, weight = data.edge_index, data.edge_weight
        if not isinstance(edges, Tensor) or edges.dim() != 2 or edges.is_sparse:
            raise TypeError(
                f"Expected '{name}' to be edge_index [2, E], or a Data that has it, beside "
                f"'edge_type' (got {type(side).__name__})."
            )
        if kind.shape != edges.shape[1:] or (kind.numel() and kind.min() < 0):
            raise ValueError(
                f"Expected 'edge_type' of the {name} to have a number >= 0 for each of "
                f"{edges.size(1)} edges (got shape {list(kind.shape)})."
            )
        given.append((kind, edges, weight))
    number = max((int(kind.max()) + 1 for kind, _, _ in given if kind.numel()), default=0)
    found = []
    for each in range(number):
        parts = []
        for (kind, edges, weight), cost in zip(given, costs, strict=True):
            chosen = kind == each
            some = None if weight is None else weight[chosen]
            parts.append(AdjacencyCost(edges[:, chosen], some, cost.num_points).scipy())
        found.append((parts[0], parts[1]))
    return found
