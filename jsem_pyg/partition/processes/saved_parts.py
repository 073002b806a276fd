"""Writes the parts of a graph to a folder once; each process reads its own part.

There is a safetensors file for every part, and `parts.json`, which is written last: a folder
without it is not complete.
"""

import os
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from torch_geometric.data import Data

from ..._checks import check_instance
from ..._files import as_path, check_writable
from ..._journal import read_journal, write_journal
from ..._tensor_file import load_tree, save_tree
from ..split import Partition
from .distribute import check_array, check_graph, cut_data, take_rows
from .graph import DistributedGraph
from .ranks import Ranks
from .rows import Cutter, RowRecord

_VERSION = 3
_INDEX, _KIND = "parts.json", "part"


def save_parts(folder: str | os.PathLike[str], data: Data, partition: Partition) -> None:
    """Write a graph to a folder, part by part, for :func:`load_part`.

    One process does this once; it needs memory for the edges of the whole graph, not for x: leave x
    out of `data` and keep it in a `.npy` file, of which each process reads its own rows.

    Args:
        folder: Where to write. Parts that are there already are replaced.
        data: A graph with `edge_index`, and what is to be cut: tensors of nodes and edges.
        partition: Of its nodes, with a part for every process that will read it.

    Raises:
        ValueError: If the graph is directed, or the partition does not fit it.
        OSError: If the folder cannot be written to. It is then not complete, and not read.

    Example:
        >>> import tempfile, torch
        >>> ring = torch.tensor([[0, 1, 2, 3, 1, 2, 3, 0], [1, 2, 3, 0, 0, 1, 2, 3]])
        >>> whole = Partition(torch.arange(4), torch.tensor([0, 4]))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_parts(folder, Data(x=torch.eye(4), edge_index=ring), whole)
        ...     load_part(folder)
        DistributedGraph(rank=0 of 1, num_nodes=4 of 4, num_edges=8, halo=0)
    """
    path = as_path("folder", folder)
    check_instance("data", data, Data, "a torch_geometric.data.Data")
    check_instance("partition", partition, Partition, "a Partition")
    check_writable("folder", path / _INDEX)
    structure = check_graph(data)
    cutter = Cutter(structure, partition)
    (path / _INDEX).unlink(missing_ok=True)
    name = uuid4().hex  # so that no part of an earlier call is taken for one of this call
    for record in map(cutter.cut, range(partition.num_parts)):
        tree = {
            "name": name,
            "record": record._asdict(),
            "data": cut_data(data, record).to_dict(),
        }
        save_tree(path / _file_of(record.rank, record.num_ranks), _KIND, "data", tree)
    index = {
        "name": name,
        "num_parts": partition.num_parts,
        "num_nodes": structure.num_nodes,
        "num_edges": structure.num_edges,
        "nodes": partition.ptr.diff().tolist(),
    }
    write_journal(path / _INDEX, _VERSION, index, {})


def load_part(
    folder: str | os.PathLike[str],
    x: str | os.PathLike[str] | np.ndarray | None = None,
    *,
    group: Any = None,
) -> DistributedGraph:
    """Read this process's rows of a graph that :func:`save_parts` wrote, and no others.

    Args:
        folder: Where the parts are.
        x: A `.npy` file with the features [N, D] of all nodes in the order of the whole graph, or
            an array such as `numpy.memmap`, of which these rows are read; None: those of the parts.
        group: Processes of `torch.distributed`, as many as parts; None: all.

    Returns:
        As :func:`distribute` does.

    Raises:
        FileNotFoundError: If the folder is not there, or not complete.
        ValueError: If a file is damaged or of another version, there is another number of
            processes than of parts, or x has other rows.

    Example:
        See :func:`save_parts`.
    """
    path, ranks = as_path("folder", folder), Ranks(group)
    index = _read_index(path)
    if index["num_parts"] != ranks.size:
        raise ValueError(
            f"Expected as many processes as there are parts in '{path}', {index['num_parts']} (got "
            f"{ranks.size}). To fix this, start as many, such as by torchrun --nproc-per-node, or "
            "write other parts by save_parts."
        )
    file = path / _file_of(ranks.rank, ranks.size)
    tree = load_tree(file, _KIND)
    if (tree["name"], tree["record"]["rank"]) != (index["name"], ranks.rank):
        raise ValueError(
            f"Expected '{file}' to be the part of rank {ranks.rank}, written together with "
            f"'{_INDEX}' beside it (got a part of another rank or call). To fix this, write the "
            "parts anew by save_parts."
        )
    record = RowRecord(**tree["record"])
    data = Data.from_dict(tree["data"])
    if x is not None:
        data.x = take_rows(_open_rows(x, index["num_nodes"]), record.nodes)
    return DistributedGraph(record, ranks, data)


def _file_of(rank: int, num_ranks: int) -> str:
    return f"part-{rank:05d}-of-{num_ranks:05d}.safetensors"


def _read_index(path: Path) -> dict[str, Any]:
    try:
        return read_journal(path / _INDEX, _VERSION, "write the parts anew by save_parts").settings
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"Expected 'folder' to hold parts of a graph (got '{path}' without '{_INDEX}', which "
            "is written last). To fix this, write them by save_parts."
        ) from error


def _open_rows(x: Any, num_nodes: int) -> np.ndarray:
    """Map the features of all nodes, without reading them."""
    if isinstance(x, str | os.PathLike):
        x = np.load(as_path("x", x), mmap_mode="r", allow_pickle=False)
    check_instance("x", x, np.ndarray, "a .npy file or an array of NumPy's")
    check_array("x", x, num_nodes)
    return x
