"""All triangles of a graph, one by one, in plain torch on any device: paths of two edges in chunks.

Beside what they are written down in, nothing grows with the number of triangles.
"""

import torch
from torch import Tensor

from ..csr import CSR
from .torch_wedges import _chunks, _find, _keys, _paths, _select, _wide


def list_triangles(csr: CSR) -> Tensor:
    """List the sets of three nodes of which every two are joined.

    Each is found once, from its node of the lowest degree, see :mod:`.torch_wedges`.

    Args:
        csr: the symmetric pattern of a graph without self-loops.

    Returns:
        [3, F] int64, nodes i < j < k, in lexicographic order.
    """
    csr = csr.derived(_wide)
    low, high = csr.degree[csr.row], csr.degree[csr.col]
    forward = (low < high) | ((low == high) & (csr.row < csr.col))
    graph = _select(csr, forward.nonzero()[:, 0])
    key, found = _keys(graph), [csr.col.new_empty(3, 0)]
    for chunk in _chunks(graph.degree[graph.col]):
        uv, vw = _paths(graph, chunk)
        u, v, w = graph.row[uv], graph.col[uv], graph.col[vw]
        is_edge = _find(key, u * graph.num_rows + w)[1]
        found.append(torch.stack([u, v, w])[:, is_edge])
    i, j, k = torch.cat(found, dim=1).sort(0).values
    order = k.argsort()
    # By i and j next, without mixing up the k: one number of all three might overflow.
    order = order[(i * csr.num_rows + j)[order].argsort(stable=True)]
    return torch.stack([i, j, k])[:, order]
