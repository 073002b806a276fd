"""Outliers: nodes whose random walk stays among copies of themselves."""

import torch
from torch import Tensor
from torch_geometric.data import Data

from .._checks import check_nonnegative_int, check_positive, check_positive_int
from ..diffusion import heat_diffusion
from .seeds import Purpose, derive_generator
from .training_graph import TrainingGraph, prepare_graph


@torch.no_grad()
def outlier_probability(
    data: Data | TrainingGraph, t: float = 5.0, *, num_probes: int = 64, seed: int = 0
) -> Tensor:
    r"""Probability that a random walk from a node reaches only copies of it: [N], in [0, 1].

    .. math::
        r_i = \sum_{j : \mathbf{x}_j = \mathbf{x}_i} \left( e^{-t \mathbf{L}_{rw}} \right)_{ij}

    A cluster is a place where different points are near each other. Posts without a word all have
    the same embedding, and one another as neighbours; a paper without citations has no neighbour.
    A classifier has only their features to go by, and its probabilities do not show that: multiply
    them by :math:`1 - r_i`. A point that is far from all others, but has different neighbours, is
    not found.

    The estimate takes random signs, one for all copies of a point, with an error of about 0.02.

    Args:
        data: A graph with `x` [N, D], `edge_index` [2, E], both directions, and optionally
            `edge_weight` [E]. It is not changed.
        t: Length of the walk, > 0.
        num_probes: Number of vectors of random signs; the error falls as its square root.
        seed: Of the signs.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If a number is out of range, or `data` cannot be trained with.

    Source: Hutchinson, "A stochastic estimator of the trace of the influence matrix", 1989.

    Example:
        >>> x = torch.tensor([[1.0], [1.0], [2.0], [3.0], [4.0]])
        >>> edges = torch.tensor([[0, 1, 2, 3, 2, 4, 3, 4], [1, 0, 3, 2, 4, 2, 4, 3]])
        >>> outlier_probability(Data(x=x, edge_index=edges), num_probes=50_000).round(decimals=1)
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
