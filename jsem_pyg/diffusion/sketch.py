"""Embed the nodes of a graph without features: heat of random signs."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from .._checks import check_between, check_nonnegative_int, check_positive_int
from .._random import seeded
from ..graph.reader import GraphReader, count_nodes
from ..kernels.torch_func import compute_dtype, without_autocast
from .functional import heat_diffusion
from .times import read_times

_READER = GraphReader(keeps=False)


@torch.no_grad()
@without_autocast
def sketch_nodes(
    edge_index: Any,
    dim: int,
    edge_weight: Tensor | None = None,
    t: float | Sequence[float] | Tensor = (10.0, 100.0),
    *,
    num_nodes: int | None = None,
    degree_power: float = 0.0,
    tol: float = 1e-3,
    seed: int = 0,
) -> Tensor:
    r"""Embed the nodes of a graph without features, by heat that starts from random signs.

    .. math::
        \mathbf{Y}_s = (\mathbf{I} - \mathbf{1} \boldsymbol{\pi}^\top)
        e^{-t_s (\mathbf{I} - \mathbf{D}^{-1} \mathbf{W})} \mathbf{D}^\beta \mathbf{R}

    The result has the rows of all :math:`\mathbf{Y}_s` side by side, each of length one: similar if
    heat flows easily between their nodes. R has dim / S columns of random signs, 1, 0 or -1 with
    the probabilities 1/6, 2/3 and 1/6, so that products of rows estimate those of the heat kernel.
    The mean by the nodes' shares :math:`\boldsymbol{\pi}` of all degrees is taken away, since heat
    makes it common to all rows. All scales share one series, of about :math:`4 \sqrt{t}` products;
    FastRP takes the third and fourth power of :math:`\mathbf{D}^{-1} \mathbf{W}` in its place.

    An isolated node keeps its signs: it resembles no other node. If Y is larger than memory, write
    R to a file, and diffuse it by :func:`~jsem_pyg.partition.diffuse_file`, "rw" normalised.

    Args:
        edge_index: the graph, in any form that :func:`~jsem_pyg.diffusion.heat_diffusion` takes.
        dim: the number of columns of the result, a multiple of S.
        edge_weight: [E] non-negative weights, the same in both directions; None: ones.
        t: the diffusion time >= 0, in steps of a random walk, or [S] scales.
        num_nodes: N, where isolated nodes may come after the last edge.
        degree_power: :math:`\beta` in (-1, 1). Above zero, nodes of high degree count more for the
            rows of others. The symmetric Laplacian would give the rows of :math:`\beta - 1/2`.
        tol: the error allowed, as in :func:`~jsem_pyg.diffusion.heat_diffusion`.
        seed: of the signs.

    Returns:
        [N, dim], without gradients, in the type of `edge_weight` (torch's default type without it).

    Source: Chen et al., "Fast and accurate network embeddings via very sparse random projection",
    CIKM 2019; signs of Achlioptas, "Database-friendly random projections", JCSS 66, 2003, eq. 2.

    Example:
        >>> two_triangles = torch.tensor([[0, 0, 1, 2, 3, 3, 4], [1, 2, 2, 3, 4, 5, 5]])
        >>> edge_index = torch.cat([two_triangles, two_triangles.flip(0)], dim=1)
        >>> rows = sketch_nodes(edge_index, 64, t=3.0)
        >>> rows @ rows[0] > 0
        tensor([ True,  True,  True, False, False, False])
    """
    check_positive_int("dim", dim)
    check_between("degree_power", degree_power, -1, 1)
    check_nonnegative_int("seed", seed)
    times = read_times(torch.tensor(t) if isinstance(t, Sequence) else t, 1).value.flatten()
    scales = len(times)
    if dim % scales:
        raise ValueError(f"Expected 'dim' to be a multiple of the {scales} scales (got {dim}).")
    size = count_nodes(edge_index, num_nodes)
    device = edge_index.device() if callable(edge_index.device) else edge_index.device
    rows, weight = _READER.read(edge_index, torch.empty(size, 0, device=device), edge_weight)
    structure = rows.whole("to sketch its nodes", "call sketch_nodes before it is distributed")
    one = torch.ones(structure.num_edges, device=device) if weight is None else weight
    degree = structure.row_sums(structure.symmetric(structure.to_slots(one.double())))
    die = torch.randint(6, (size, dim // scales), generator=seeded(seed), dtype=torch.int8)
    signs = ((die == 0).to(torch.int8) - (die == 1).to(torch.int8)).to(device)
    # The symmetric Laplacian, between two diagonals: rows get the length one anyway.
    start = (degree / degree.mean()).pow(degree_power + 0.5).where(degree > 0, 1)
    dtype = compute_dtype(weight)
    x = start.to(dtype).unsqueeze(1) * signs
    heat = heat_diffusion(x, structure, weight, times, tol=tol)
    common = normalize(degree.sqrt(), dim=0).to(dtype)
    heat -= common.unsqueeze(1) * (common @ heat).unsqueeze(1)
    return normalize(heat, dim=2).transpose(0, 1).reshape(size, dim)
