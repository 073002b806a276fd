"""Cuts the rows of this process out of a whole graph."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from ..._checks import check_instance, check_points, tensor_of
from ...graph import GraphStructure
from ...graph.reader import check_data, read_data
from ..split import Partition, recursive_partition
from .graph import DistributedGraph
from .ranks import Ranks
from .rows import RowRecord, cut_rows


def distribute(
    data: Data, partition: Partition | None = None, *, group: Any = None
) -> DistributedGraph:
    """Cut out this process's rows of a graph, for training and diffusion by several processes.

    The processes are started by `torchrun` and call `torch.distributed.init_process_group`, then
    this function with the same `data`; a single process gets all rows. Cutting takes memory for
    the edges of the whole graph, but not for x in a file.

    Args:
        data: A graph with `edge_index`, both directions of every edge, and the number of nodes;
            tensors of nodes and edges (`x`, `y`, masks, `edge_weight`, `edge_attr`, ...) are cut.
            `x` may be a `numpy.memmap`, of which only these rows are read.
        partition: Of the nodes, with a part for each process or a multiple of that. None: made by
            :func:`recursive_partition` in the first process, which sends it to the others.
        group: Processes of `torch.distributed`; None: all.

    Returns:
        What `heat_diffusion` and the layers take in place of `edge_index`, where that lies; its
        `data` holds this process's rows.

    Raises:
        RuntimeError: If `torchrun` started the process but there is no process group, or another
            process ended or hangs.

    Example:
        >>> from jsem_pyg.diffusion import heat_diffusion
        >>> ring = torch.tensor([[0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3]])
        >>> part = distribute(Data(x=torch.eye(4), edge_index=ring))
        >>> heat_diffusion(part.data.x, part).shape
        torch.Size([4, 4])
    """
    ranks = Ranks(group)
    structure = _check_graph(data)
    if partition is None:
        partition = _agree_on_partition(structure, ranks)
    check_instance("partition", partition, Partition, "a Partition or None")
    record = cut_rows(structure, partition, ranks.rank, ranks.size)
    return DistributedGraph(record.to(structure.device), ranks, _cut_data(data, record))


def _check_graph(data: Data) -> GraphStructure:
    """Check features, weights and edges of the whole graph, and prepare its edges."""
    check_data(data, "edge_index")
    x = data.get("x")
    if isinstance(x, np.memmap):  # which is not read here
        if x.ndim != 2 or x.dtype.kind != "f":
            got = f"{x.dtype} of shape {list(x.shape)}"
            raise ValueError(f"Expected 'data.x' to hold floats of shape [N, D] (got {got}).")
    elif x is not None:
        check_points("data.x", x)
    structure, _ = read_data(data, None if x is None else x.shape[0])
    if data.get("edge_attr") is not None:
        structure.check_attr(data.edge_attr)
    return structure


def _cut_data(data: Data, record: RowRecord) -> Data:
    """Cut tensors of nodes to rows and tensors of edges to entries; keep all else as it is."""
    out, num_nodes = Data(), record.num_nodes_in_all
    num_edges = data.edge_index.shape[1]
    for name, value in data.to_dict().items():
        if name in ("edge_index", "num_nodes"):
            continue
        size = value.shape[0] if hasattr(value, "shape") and len(value.shape) else None
        if name.startswith("edge_") and size == num_edges:
            out[name] = _take_rows(value, record.edges)
        elif not name.startswith("edge_") and size == num_nodes:
            out[name] = _take_rows(value, record.nodes)
        else:
            out[name] = value
    return out


def _take_rows(values: Any, rows: Tensor) -> Tensor:
    """Take some rows of a tensor, or of an array, which is read in ascending order of its rows."""
    if isinstance(values, Tensor):
        return values[rows.to(values.device)]
    order = rows.argsort()
    found = tensor_of("x", values[rows[order].numpy()])
    out = torch.empty_like(found)
    out[order] = found
    return out


def _agree_on_partition(structure: GraphStructure, ranks: Ranks) -> Partition:
    """Make a partition in the first process, and send it to all others."""
    order = torch.zeros(structure.num_nodes, dtype=torch.int64)
    ptr = torch.zeros(ranks.size + 1, dtype=torch.int64)
    if ranks.rank == 0:
        found = recursive_partition(structure, ranks.size)
        order, ptr = found.order, found.ptr
    return Partition(ranks.from_first(order), ranks.from_first(ptr))
