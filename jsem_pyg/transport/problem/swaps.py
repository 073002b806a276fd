r"""Exchange moves: swaps of two partners in a quadratic assignment, for tables and sparse graphs.

An assignment m keeps :math:`f(m) = \sum_{ab} A_{ab} B_{m_a m_b} + \sum_a L_{a m_a}`. With
:math:`\mathbf{M} = \mathbf{A} \mathbf{P} \mathbf{B} \mathbf{P}^T` and the moved
:math:`\mathbf{B}' = \mathbf{P} \mathbf{B} \mathbf{P}^T`, a swap of a and b changes f by twice
:math:`M_{ab} + M_{ba} - M_{aa} - M_{bb} + 2 A_{ab} B'_{ab}`, if A and B have no diagonal and L is
zero. Groups of points have small tables, of which many assignments are improved at once; graphs are
sparse, and many of their nodes move in a sweep.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from torch import Tensor

Array = NDArray[Any]

_TRIES = 256  # at once
_ROUNDS = 4
_SWAPS = 3  # random ones, at most
_GAIN = 1e-4  # of the objective, below which it is rounding
_LEAST_GAIN = 1e-6  # of a swap between sparse graphs


def best_assignment(inner: Tensor, outer: Tensor, linear: Tensor, seed: int) -> Tensor | None:
    """An assignment [m] better than the identity for sum A_ab B_(o_a o_b) + sum L_(a o_a), or None.

    Iterated local search: from the best so far, a few swaps that cost little, and then the steepest
    ascent by swaps, for many at once.

    Args:
        inner: A [m, m], symmetric.
        outer: B [m, m], symmetric.
        linear: L [m, m].
        seed: of the swaps.
    """
    generator = torch.Generator().manual_seed(seed)
    count = inner.size(0)
    if count < 3:
        return None
    best = torch.arange(count, device=inner.device)
    start = value = float(_value(inner, outer, linear, best[None])[0])
    for _ in range(_ROUNDS):
        tries = _perturbed(best, swap_gains(inner, outer, linear, best[None])[0], generator)
        tries = _climb(inner, outer, linear, tries)
        values = _value(inner, outer, linear, tries)
        top = int(values.argmax())
        if float(values[top]) <= value + _GAIN * abs(start):
            break
        best, value = tries[top], float(values[top])
    return best if value > start + _GAIN * abs(start) else None


def _value(inner: Tensor, outer: Tensor, linear: Tensor, order: Tensor) -> Tensor:
    """The objective [B] of assignments [B, m]."""
    return (inner * _moved(outer, order)).sum((1, 2)) + linear.gather(1, order.T).T.sum(1)


def _moved(outer: Tensor, order: Tensor) -> Tensor:
    """B' [B, m, m] of assignments [B, m]."""
    return outer.take(order[:, :, None] * outer.size(1) + order[:, None, :])


def swap_gains(inner: Tensor, outer: Tensor, linear: Tensor, order: Tensor) -> Tensor:
    """Change of the objective if a and b are swapped: [B, m, m]."""
    moved = _moved(outer, order)
    half = inner @ moved  # sum_k A_ak B'_kb; the change is the sum of this half and its transpose
    a, b = inner.diagonal(), moved.diagonal(dim1=1, dim2=2)
    placed = linear.gather(1, order.T).T
    same = half.diagonal(dim1=1, dim2=2) - a * b / 2 + placed / 2  # without a swap
    # The terms of a and b themselves, which do not change as the others do.
    half.addcmul_(inner - a[:, None], moved).addcmul_(inner, b[:, :, None], value=-1)
    half.addcmul_(a[:, None], b[:, None, :], value=0.5).sub_(same[:, :, None])
    half.mul_(2).add_(linear[:, order].transpose(0, 1))
    return half + half.mT


def _perturbed(best: Tensor, gain: Tensor, generator: torch.Generator) -> Tensor:
    """Copies [B, m] of an assignment with a few random swaps, preferably ones that cost little."""
    count = best.numel()
    row, column = torch.triu_indices(count, count, 1)
    cost = -gain[row, column].cpu()
    chance = torch.softmax(-cost / cost.median().clamp(min=1e-300) * 4, 0)
    tries = best.cpu().repeat(_TRIES, 1)
    chosen = torch.multinomial(chance, _TRIES * _SWAPS, True, generator=generator)
    number = torch.randint(1, _SWAPS + 1, (_TRIES,), generator=generator)
    each = torch.arange(_TRIES)
    for index, swap in enumerate(chosen.view(_SWAPS, _TRIES)):
        a, b = row[swap], column[swap]
        does = number > index
        first, second = tries[each, a], tries[each, b]
        tries[each, a] = torch.where(does, second, first)
        tries[each, b] = torch.where(does, first, second)
    return tries.to(best.device)


def _climb(inner: Tensor, outer: Tensor, linear: Tensor, order: Tensor) -> Tensor:
    """The best swap of each assignment, until none is better."""
    order = order.clone()
    climbs = torch.arange(order.size(0), device=order.device)
    least = 1e-9 * float((inner.abs().sum() * outer.abs().max()).clamp(min=1e-300))
    for _ in range(4 * order.size(1)):
        gain, swap = swap_gains(inner, outer, linear, order[climbs]).flatten(1).max(1)
        better = gain > least
        climbs, swap = climbs[better], swap[better]
        if not len(climbs):
            break
        a, b = swap // order.size(1), swap % order.size(1)
        order[climbs, a], order[climbs, b] = order[climbs, b], order[climbs, a]
    return order


def swap_partners(
    source: csr_array, target: csr_array, partner: Array, max_sweeps: int = 50
) -> Array:
    """Swap partners of two nodes wherever that keeps more, until no swap does.

    Args:
        source: A [N, N], symmetric, without a diagonal.
        target: B [N, N] likewise.
        partner: [N] a permutation.
        max_sweeps: at most how many.

    Returns:
        [N] another one.
    """
    partner = partner.copy()
    for _ in range(max_sweeps):
        moved = pulled(target, partner)
        first, second, gain = sparse_gains(source, moved)
        improves = (gain > _LEAST_GAIN) & (first < second)
        if not improves.any():
            break
        order = np.lexsort((second[improves], first[improves], -gain[improves]))
        has_moved = np.zeros(len(partner), bool)
        for i, k in np.stack([first, second], 1)[improves][order].tolist():
            if has_moved[i] or has_moved[k]:
                continue
            # Gains add up as long as no neighbour has moved in this sweep.
            around = [_row(each, node) for each in (source, moved) for node in (i, k)]
            if not has_moved[np.concatenate(around)].any():
                partner[i], partner[k] = partner[k], partner[i]
                has_moved[i] = has_moved[k] = True
    return partner


def pulled(matrix: csr_array, partner: Array) -> csr_array:
    """The matrix P B P^T, with entries B[m_i, m_j]: the target's edges between the sources."""
    place = np.empty_like(partner)
    place[partner] = np.arange(len(partner))
    entries = matrix.tocoo()
    row, column = (place[each] for each in entries.coords)
    return coo_array((entries.data, (row, column)), matrix.shape).tocsr()


def _row(matrix: csr_array, node: int) -> Array:
    return matrix.indices[matrix.indptr[node] : matrix.indptr[node + 1]]


def sparse_gains(source: csr_array, moved: csr_array) -> tuple[Array, Array, Array]:
    """Half of what f gains by swaps of nodes that share a matched neighbour: pairs and gains."""
    product = (source @ moved).tocsr()
    both = (product + product.T + 2 * (source * moved)).tocoo()
    own = product.diagonal()
    first, second = both.coords
    return first, second, both.data - own[first] - own[second]
