"""Heat diffusion of an array that does not fit into memory: from a file to a file."""

import errno
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..._checks import check_bool
from ..._files import as_path, check_writable
from ...diffusion.options import HeatOptions
from .column_flow import column_flow
from .memory import parse_memory
from .panel_width import choose_width
from .partial_result import folder_of, partial_result
from .source import ArraySource, open_source
from .steps import first_progress, take_steps

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def diffuse_file(
    source: Any,
    edge_index: Any,
    target: str | os.PathLike[str],
    t: float | Tensor,
    *,
    edge_weight: Tensor | None = None,
    conductance: Tensor | None = None,
    degree: int | None = None,
    tol: float = 1e-6,
    normalization: str | None = "sym",
    backend: str = "auto",
    memory: int | str = "1GB",
    resume: bool = True,
    progress: bool = True,
) -> Path:
    r"""Diffuse an array that does not fit into memory, from a file to a file.

    The numbers are those of :func:`~jsem_pyg.diffusion.heat_diffusion` on the whole array. Heat
    flows in every column by itself. So a few columns at a time (a panel) are read, diffused and
    written; the next panel is read and the last one written meanwhile. The graph has to fit into
    memory.

    A file in C's order would have to be read as a whole for every panel. If there are many panels,
    it is read once instead, and kept beside the target panel by panel; results are kept likewise,
    and put together at last. That takes room on the disk: twice that of the result, or once that of
    result and source together, if that is more.

    The target is complete or not there. What is done is kept in a folder beside it, `target` +
    ".partial": a run that was killed, or whose disk was full, goes on from there when it is called
    again with the same arguments (only `memory` and `progress` may change).

    Args:
        source: x [N, D]: the path of a `.npy` file, or an array with `shape`, `dtype` and slices,
            such as `numpy.memmap` or a data set of h5py or zarr; float16, float32 or float64.
        edge_index: the graph, as in :func:`~jsem_pyg.diffusion.heat_diffusion`, on the CPU.
        target: the `.npy` file to write, in the type of `source` and in C's order; an existing one
            is replaced once the new one is complete.
        t: diffusion time >= 0: a number or 0-d tensor, [S] scales, or [S, D] scales and channels.
        edge_weight: [E] non-negative weights; None: ones, or the values of the sparse tensor.
        conductance: [E] numbers in [0, 1] by which the weights are multiplied, such as
            ``layer.conductance(data.edge_attr)`` of a trained
            :class:`~jsem_pyg.nn.AnisotropicDiffusion`, whose time is ``layer.t``. None: ones.
        degree: as in :func:`~jsem_pyg.diffusion.heat_diffusion`, like the three that follow.
        tol: the relative error allowed.
        normalization: "sym", "rw" or None.
        backend: what evaluates the series, on the CPU.
        memory: the most memory that this process may hold meanwhile, in bytes or as text, "512MB",
            "2GB" (10^9 bytes), "2GiB". It covers all resident memory: Python and the libraries
            (about 0.5 GB), the graph and its operator (about 50 bytes an edge), all else that the
            process holds, and panels, which are as wide as the rest allows. Not covered are the
            moments in which `edge_index` is sorted, unless a
            :class:`~jsem_pyg.graph.GraphStructure` is passed, and memory of other threads.
        resume: go on with what a run of the same arguments has left; False begins anew.
        progress: show bars with the time left, where there is a terminal to show them in.

    Returns:
        The path of the target, a file [N, D], or [S, N, D] if `t` has scales. Open it by
        ``numpy.load(path, mmap_mode="r")``.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if shapes do not fit, a number is NaN or infinite (row and column are named),
            `memory` is too small (what is needed is named), the source changes, it is the target,
            or the target was begun with other arguments.
        RuntimeError: if another process is writing to the target.
        OSError: if a file cannot be read or written, or the disk is full; the target is then as it
            was before, and what is done is kept.

    Example:
        >>> import tempfile
        >>> import numpy as np
        >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     x, y = f"{folder}/x.npy", f"{folder}/y.npy"
        ...     np.save(x, np.eye(3, dtype=np.float32))
        ...     np.load(diffuse_file(x, edge_index, y, t=2.0, memory="16GB")).round(2)
        array([[0.32, 0.35, 0.19],
               [0.35, 0.51, 0.35],
               [0.19, 0.35, 0.32]], dtype=float32)
    """
    limit = parse_memory("memory", memory)
    check_bool("resume", resume)
    check_bool("progress", progress)
    options = HeatOptions(degree, tol, normalization, backend).for_graph(edge_index)
    path = _target_path(target)
    with closing(open_source(source)) as array, torch.no_grad():
        _check_apart(array, path)
        check_writable("target", path)
        flow, settings = column_flow(array, edge_index, t, edge_weight, conductance, options)
        budget = choose_width(limit, flow.sizes, flow.try_out)
        begun = first_progress(array, budget)
        with _full_disk_named(path), partial_result(path, settings, begun, resume) as partial:
            if not partial.progress.finished:
                take_steps(array, flow, budget, partial, progress)
            partial.finish()
    return path


def _target_path(target: Any) -> Path:
    """Check the path of the target."""
    path = as_path("target", target)
    if path.suffix != ".npy" or path.is_dir():
        what = "a folder" if path.is_dir() else f"'{path}'"
        raise ValueError(f"Expected 'target' to be the path of a .npy file (got {what}).")
    return path


def _check_apart(source: ArraySource, target: Path) -> None:
    """Raise a ValueError if source and target are the same file."""
    path = source.path
    if path is not None and path.exists() and target.exists() and os.path.samefile(path, target):
        raise ValueError(
            f"Expected 'target' to be another file than 'source' (got '{target}' for both)."
        )


@contextmanager
def _full_disk_named(target: Path) -> Iterator[None]:
    """Errors of a full disk name the target, and how to go on."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise type(error)(
            error.errno,
            f"{error.strerror}: expected 'target' to be on a disk with room for it (got "
            f"'{target}'). What is done is kept in '{folder_of(target)}'; once there is room, the "
            "same call goes on from there",
        ) from error
