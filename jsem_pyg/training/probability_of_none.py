"""Points that belong nowhere: heat that starts there never meets a point that differs."""

import torch
from torch import Tensor
from torch_geometric.data import Data

from .._checks import check_nonnegative_int, check_positive, check_positive_int
from ..diffusion import heat_diffusion
from .seeds import Purpose, derive_generator
from .training_graph import TrainingGraph, prepare_graph


@torch.no_grad()
def probability_of_none(
    data: Data | TrainingGraph, t: float = 5.0, *, num_probes: int = 64, seed: int = 0
) -> Tensor:
    r"""How likely a walk that starts at a node has met no point but copies of it: [N], in [0, 1].

    .. math::
        r_i = \sum_{j : \mathbf{x}_j = \mathbf{x}_i} \left( e^{-t \mathbf{L}_{rw}} \right)_{ij}

    A cluster is a place where points that differ are near each other. Posts without a word all have
    the same embedding, and each other for neighbours; a paper without citations is alone. What a
    classifier says of them follows from their features alone, and its probabilities do not know it:
    multiply them by :math:`1 - r_i`. A point that is far from all others, but has different
    neighbours, is not seen.

    It is estimated by random signs, one for all copies of a point, with an error of about 0.02.

    Args:
        data: A graph with `x` [N, D], `edge_index` [2, E], both directions, and optionally
            `edge_weight` [E]; or one that is prepared already. It is not changed.
        t: How long the walk takes, > 0.
        num_probes: How many vectors of random signs; the error falls as the root of it.
        seed: Of the signs.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a number is out of range, or `data` cannot be trained with.

    Source: Hutchinson, "A stochastic estimator of the trace of the influence matrix", 1989.

    Example:
        >>> x = torch.tensor([[1.0], [1.0], [2.0], [3.0], [4.0]])
        >>> edges = torch.tensor([[0, 1, 2, 3, 2, 4, 3, 4], [1, 0, 3, 2, 4, 2, 4, 3]])
        >>> probability_of_none(Data(x=x, edge_index=edges), num_probes=50_000).round(decimals=1)
        tensor([1.0000, 1.0000, 0.3000, 0.3000, 0.3000])
    """
    check_positive("t", t)
    check_positive_int("num_probes", num_probes)
    check_nonnegative_int("seed", seed)
    graph = prepare_graph(data)
    copies = graph.x.unique(dim=0, return_inverse=True)[1]
    drawn = torch.randint(
        2, (len(copies), num_probes), generator=derive_generator(seed, Purpose.SKETCH)
    )
    signs = (2 * drawn - 1).to(graph.x)[copies]
    later = heat_diffusion(
        signs, graph.structure, graph.edge_weight, t, normalization="rw", tol=1e-3
    )
    return (signs * later).mean(-1).clamp(0, 1)
