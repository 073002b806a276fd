"""Heat diffusion of an array that does not fit into memory: from a file to a file."""

import errno
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from io import BytesIO
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from numpy.lib import format as npy
from torch import Tensor

from ..._checks import check_bool
from ..._files import as_path, check_writable
from ..._progress import progress_bar
from ...diffusion.options import HeatOptions
from .column_flow import ColumnFlow, column_flow
from .memory import Budget, choose_width, in_words, parse_memory
from .panel_file import PanelFile, write_all
from .partial_result import PartialResult, folder_of, partial_result
from .source import Source

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
    flows in every column by itself. So the rows are sorted into columns in a file, a few columns at
    a time are read, diffused and written, and those of the result are put together to rows. What
    comes next is read, and what came last is written, meanwhile. The graph has to fit into memory,
    and the disk needs room for twice the result, or for result and source, if that is more.

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
            :class:`~jsem_pyg.nn.AnisotropicDiffusion`, whose time is ``layer.t``. As in layers, the
            mean of both directions of an edge counts. None: ones.
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
        resume: go on with what a run of the same arguments has left; False begins anew. A changed
            source is refused; of one that is neither a file nor in memory (h5py, zarr), a sample of
            1,024 numbers in each of 64 rows has to show the change.
        progress: show bars with the time left, where there is a terminal to show them in.

    Returns:
        The path of the target, a file [N, D], or [S, N, D] if `t` has scales. Open it by
        ``numpy.load(path, mmap_mode="r")``.

    Raises:
        TypeError: if an argument is of the wrong type.
        ValueError: if shapes do not fit, a number is NaN or infinite (row and column are named),
            `memory` is too small (what is needed is named), the source changes, it is the target,
            or the target was begun with other arguments, or its unfinished files were cut.
        OSError: if a file cannot be read or written, the disk is full, or another process is
            writing to the target; the target is then as it was before, and what is done is kept.

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
    options = HeatOptions(degree, tol, normalization, backend)
    path = _target_path(target)
    array = Source(source)
    _check_apart(array, path)
    check_writable("target", path)
    with torch.no_grad():
        flow, settings = column_flow(array, edge_index, t, edge_weight, conductance, options)
        budget = choose_width(limit, flow.sizes, flow.try_out)
        with _full_disk_named(path), partial_result(path, settings, resume) as partial:
            if not partial.progress.finished:
                take_steps(array, flow, budget, partial, progress)
            partial.finish()
    return path


def take_steps(
    source: Source, flow: ColumnFlow, budget: Budget, partial: PartialResult, shows: bool
) -> None:
    """Do what is left to do: rows into panels, panels through time, panels into rows.

    Panels in files have the width of a unit, whatever the memory: a run that goes on may have
    another limit, and takes other numbers of them at once.
    """
    sizes = flow.sizes
    every, nodes = slice(0, sizes.channels), slice(0, sizes.num_nodes)
    rows = slice(0, sizes.scales * sizes.num_nodes)
    header, row_bytes = _header(source, flow), sizes.channels * sizes.itemsize
    _check_room(partial, flow, len(header))

    with ExitStack() as files:

        def panels(name: str, rows: slice) -> PanelFile:
            shape = (rows.stop, sizes.channels)
            file = PanelFile(partial.folder / name, shape, sizes.unit, source.dtype)
            return files.enter_context(closing(file))

        def step(counter: str, name: str, total: int, size: int, *work: Any) -> None:
            """Work on what is not done; a piece is noted once it is on the disk."""
            done = getattr(partial.progress, counter)
            ends = [*range(done, total, size), total]
            read, make, write = work
            with progress_bar(name, total, shows, done=done) as advance:

                def store(piece: slice, made: Any) -> None:
                    write(piece, made)
                    partial.note(**{counter: piece.stop})
                    advance(piece.stop - piece.start)

                read_ahead(list(map(slice, ends, ends[1:])), read, make, store)

        def append(piece: slice, values: Any) -> None:
            result.seek(len(header) + piece.start * row_bytes)
            write_all(result, values)
            os.fsync(result.fileno())

        before, after = panels("source.panels", nodes), panels("result.panels", rows)
        gathered, diffused, scattered, _ = partial.progress
        if diffused < sizes.channels:  # it is removed then
            _check_length(before.path, before.num_bytes(gathered))
        _check_length(after.path, rows.stop * diffused * sizes.itemsize)
        step(
            "gathered", "reading", sizes.num_nodes, budget.strip,
            source.read, lambda _, values: values,
            lambda piece, values: before.write(piece, every, values),
        )  # fmt: skip
        source.check_unchanged()
        step(
            "diffused", "diffusing", sizes.channels, budget.width,
            lambda piece: before.read(nodes, piece), flow.diffuse,
            lambda piece, values: after.write(rows, piece, values),
        )  # fmt: skip
        before.close()  # an open file keeps its room on the disk
        before.path.unlink()
        partial.result.touch()
        if scattered:
            _check_length(partial.result, len(header) + scattered * row_bytes)
        result = files.enter_context(partial.result.open("r+b", buffering=0))
        result.write(header)
        step(
            "scattered", "writing", rows.stop, budget.strip,
            lambda piece: after.read(piece, every), lambda _, values: values, append,
        )  # fmt: skip
        os.fsync(result.fileno())


def read_ahead(
    pieces: Sequence[Any],
    read: Callable[[Any], Any],
    work: Callable[[Any, Any], Any],
    write: Callable[[Any, Any], None],
) -> None:
    """Work on every piece in order, while the next one is read and the last one is written.

    At any time at most two pieces that were read and two that were made are held. An error of any
    of the three is raised here, once all calls that have begun are over; no later piece is written.

    Example:
        >>> done = []
        >>> def write(piece, made):
        ...     done.append(made)
        >>> read_ahead([1, 2], str, lambda piece, read: read * piece, write)
        >>> done
        ['1', '22']
    """
    with ThreadPoolExecutor(1) as reader, ThreadPoolExecutor(1) as writer:
        ahead: Future[Any] | None = None
        behind: Future[None] | None = None
        for piece, following in zip_longest(pieces, pieces[1:]):
            taken = read(piece) if ahead is None else ahead.result()
            ahead = None if following is None else reader.submit(read, following)
            made = work(piece, taken)
            del taken
            if behind is not None:
                behind.result()
            behind = writer.submit(write, piece, made)
            del made
        if behind is not None:
            behind.result()


def _header(source: Source, flow: ColumnFlow) -> bytes:
    """The header of the `.npy` file of the result."""
    num_nodes, channels, scales, _ = flow.sizes
    shape = (scales, num_nodes, channels) if flow.has_scales else (num_nodes, channels)
    file, descr = BytesIO(), npy.dtype_to_descr(source.dtype)
    entries = {"descr": descr, "fortran_order": False, "shape": shape}
    npy.write_array_header_1_0(file, entries)
    return file.getvalue()


def _check_length(path: Path, num_bytes: int) -> None:
    """Raise a ValueError unless a file has all that a run before wrote to it."""
    if (size := path.stat().st_size) < num_bytes:
        raise ValueError(
            f"Expected '{path}' to have {num_bytes} bytes at least, as the run that is resumed "
            f"left it (got {size}). To fix this, begin anew, with resume=False."
        )


def _check_room(partial: PartialResult, flow: ColumnFlow, header: int) -> None:
    """Raise an OSError unless the disk has room for what is still to be written."""
    of_source = flow.sizes.column * flow.sizes.channels
    of_result = flow.sizes.scales * of_source
    missing = header + of_result + max(of_result, of_source) - partial.num_bytes()
    free = shutil.disk_usage(partial.folder).free
    if missing > free:
        raise OSError(
            errno.ENOSPC,
            f"Expected 'target' to be on a disk with {in_words(missing)} free (got "
            f"{in_words(free)} beside '{partial.target}')",
        )


def _target_path(target: Any) -> Path:
    """Check the path of the target."""
    path = as_path("target", target)
    if path.suffix != ".npy" or path.is_dir():
        what = "a folder" if path.is_dir() else f"'{path}'"
        raise ValueError(f"Expected 'target' to be the path of a .npy file (got {what}).")
    return path


def _check_apart(source: Source, target: Path) -> None:
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
