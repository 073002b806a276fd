"""Heat diffusion of an array that does not fit into memory: from a file to a file."""

import os
from pathlib import Path
from typing import Any, BinaryIO

import torch
from numpy.lib import format as npy
from torch import Tensor

from ..._checks import check_bool
from ..._files import as_path, check_writable, sole_writer, write_whole
from ..._progress import progress_bar
from ...diffusion.options import HeatOptions
from .flow import ColumnFlow, column_flow, diffuse_panels, read_ahead
from .memory import STRIP, choose_width, parse_memory
from .panels import Panels, Source


def diffuse_file(
    source: Any,
    edge_index: Any,
    target: str | os.PathLike[str],
    t: float | Tensor,
    *,
    edge_weight: Tensor | None = None,
    tol: float = 1e-6,
    normalization: str | None = "sym",
    backend: str = "auto",
    memory: int | str = "1GB",
    device: torch.device | str = "cpu",
    progress: bool = True,
) -> Path:
    r"""Diffuse an array that does not fit into memory, from a file to a file.

    The numbers are those of :func:`~jsem_pyg.diffusion.heat_diffusion` on the whole array. Heat
    flows in every column by itself. So the rows are sorted into panels of columns, one panel after
    the other is diffused while the next one is read, and the results are put together to rows. The
    graph has to fit into memory, and the disk needs room for twice the result, or for result and
    source, if that is more.

    The target is complete or not there. Finished panels are kept in a folder beside it, `target` +
    ".partial": a run that was killed, or whose disk was full, goes on from there when it is called
    again with the same arguments (`memory`, `device` and `progress` may change), and other ones, or
    a source of another size or time, are refused: remove the folder to begin anew, as arrays
    without a file always do. The width of panels stays; a `memory` too small for it is refused.

    Args:
        source: x [N, D]: the path of a `.npy` file, or an array with `shape`, `dtype` and slices,
            such as `numpy.memmap` or a data set of h5py or zarr; float16, float32 or float64.
        edge_index: the graph, as in :func:`~jsem_pyg.diffusion.heat_diffusion`, on the CPU.
        target: the `.npy` file to write, in the type of `source` and in C's order; an existing one
            is replaced once the new one is complete.
        t: diffusion time >= 0: a number or 0-d tensor, [S] scales, or [S, D] scales and channels.
        edge_weight: [E] non-negative weights; None: ones, or the values of the sparse tensor. Of a
            trained layer, ``edge_weight * layer.conductance(edge_attr)``, and its time ``layer.t``.
        tol: as in :func:`~jsem_pyg.diffusion.heat_diffusion`, like the two that follow.
        normalization: "sym", "rw" or None.
        backend: what evaluates the series, on `device`.
        memory: the most memory that this process may hold meanwhile, in bytes or as text, "512MB",
            "2GB" (10^9 bytes), "2GiB". It sets the width of a panel, and covers all resident
            memory: Python and the libraries (about 0.5 GB), the graph and its operator (about 50
            bytes an edge), all else that the process holds, and panels. Not covered are the
            moments in which `edge_index` is sorted, unless a
            :class:`~jsem_pyg.graph.GraphStructure` is passed, and memory of other threads.
        device: where panels are diffused, such as "cuda"; the operator and two panels have to fit
            there. A panel is copied there, and the one before it back, while another is diffused.
        progress: show bars with the time left, if there is a terminal to show them in.

    Returns:
        The path of the target, a file [N, D], or [S, N, D] if `t` has scales. Open it by
        ``numpy.load(path, mmap_mode="r")``.

    Raises:
        ValueError: if a number is NaN or infinite (row and column are named), `memory` is too small
            (what is needed is named), the source changes, or the target was begun with other
            arguments.
        OSError: if a file cannot be read or written, the disk is full, or another process is
            writing to the target; the target is then as it was before, and finished panels are
            kept.

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
    check_bool("progress", progress)
    options = HeatOptions(None, tol, normalization, backend)
    array = Source(source)
    path = _check_target(target, array)
    check_writable("target", path)
    flow, settings = column_flow(array, edge_index, t, edge_weight, options, torch.device(device))
    folder = path.with_name(path.name + ".partial")
    panels = Panels(folder, array.shape, flow.scales, array.dtype)
    with sole_writer("target", folder):
        width = panels.begin(settings, array.path is not None)
        panels.width = choose_width(limit, flow, width)
        if width is None:
            _gather(array, panels, progress)
            panels.note_gathered(settings)
        _diffuse(flow, panels, progress)
        write_whole(path, lambda file: _write_rows(file, flow, panels, progress))
        panels.remove()
    return path


def _gather(source: Source, panels: Panels, progress: bool) -> None:
    """Sort the rows of the source into panels of columns."""
    with progress_bar("reading", panels.num_rows, progress) as advance:
        for rows, values in read_ahead(_strips(panels, panels.num_rows), source.read):
            panels.append_rows(values)
            advance(rows.stop - rows.start)
    source.check_unchanged()


def _diffuse(flow: ColumnFlow, panels: Panels, progress: bool) -> None:
    """Diffuse what is not diffused yet, panel by panel."""

    def read(columns: slice) -> Tensor:
        values = flow.empty_panel(columns)
        panels.read(columns, values.numpy())
        return values

    left = panels.left()
    done = flow.channels - sum(columns.stop - columns.start for columns in left)
    with progress_bar("diffusing", flow.channels, progress, done=done) as advance:
        for columns, values in diffuse_panels(flow, read_ahead(left, read)):
            panels.write(columns, values)
            advance(columns.stop - columns.start)


def _write_rows(file: BinaryIO, flow: ColumnFlow, panels: Panels, progress: bool) -> None:
    """Put the diffused panels together to rows, in a `.npy` file."""
    shape = (flow.scales,) * flow.has_scales + (panels.num_rows, panels.channels)
    descr = npy.dtype_to_descr(panels.dtype)
    npy.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    num_rows = flow.scales * panels.num_rows
    with progress_bar("writing", num_rows, progress) as advance:
        for rows, values in read_ahead(_strips(panels, num_rows), panels.read_rows):
            file.write(values.data)
            advance(rows.stop - rows.start)


def _strips(panels: Panels, num_rows: int) -> list[slice]:
    """Cut rows of all channels into strips."""
    size = max(1, STRIP // max(1, panels.channels * panels.dtype.itemsize))
    return [slice(begin, min(begin + size, num_rows)) for begin in range(0, num_rows, size)]


def _check_target(target: Any, source: Source) -> Path:
    """Return the path of the target, another `.npy` file than the source."""
    path = as_path("target", target)
    if path.suffix != ".npy":
        raise ValueError(f"Expected 'target' to be the path of a .npy file (got '{path}').")
    same = source.path is not None and path.exists() and os.path.samefile(source.path, path)
    if same:
        raise ValueError(
            f"Expected 'target' to be another file than 'source' (got '{path}' for both)."
        )
    return path
