"""From file to file in three steps: rows into panels, panels through time, panels into rows."""

import errno
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from io import BytesIO
from typing import Any, TypeVar

from numpy.lib import format as npy
from numpy.typing import NDArray

from ..._progress import progress_bar
from .column_flow import ColumnFlow
from .memory import in_words
from .panel_file import PanelFile
from .panel_width import Budget
from .partial_result import PartialResult, Progress
from .source import ArraySource

Array = NDArray[Any]
Piece = TypeVar("Piece")
Read = TypeVar("Read")
Made = TypeVar("Made")

# From this number of panels on, rows are sorted into panels first: that reads everything twice and
# writes it once, instead of reading everything once for each panel.
_MANY_PANELS = 4

# What a bar shows for each counter of the journal.
_NAMES = {"gathered": "reading", "diffused": "diffusing", "scattered": "writing"}


def first_progress(source: ArraySource, budget: Budget) -> Progress:
    """The progress of a new run: nothing done, and the steps that it needs."""
    panels = -(-source.shape[1] // budget.width)
    return Progress(gathers=panels >= _MANY_PANELS and not source.by_columns, scatters=panels > 1)


def take_steps(
    source: ArraySource, flow: ColumnFlow, budget: Budget, partial: PartialResult, shows: bool
) -> None:
    """Do all that is left to do.

    Panels in files have the width of a unit, whatever the memory: a run that goes on may have
    another limit, and takes other numbers of them at once.

    Args:
        source: the array.
        flow: diffuses columns of it.
        budget: how much at once.
        partial: the files of the result, and what is done.
        shows: whether to show bars.

    Raises:
        OSError: if there is no room on the disk.
    """
    progress, sizes = partial.progress, flow.sizes
    every, unit = slice(0, sizes.channels), sizes.unit
    all_nodes, all_rows = slice(0, sizes.num_nodes), slice(0, sizes.scales * sizes.num_nodes)
    header = _header(source, flow)
    _check_room(partial, flow, len(header))
    with ExitStack() as files:

        def opened(name: str, rows: slice, width: int, offset: int = 0) -> PanelFile:
            shape, path = (rows.stop, sizes.channels), partial.folder / name
            file = PanelFile(path, shape, width, source.dtype, offset, writes=True)
            return files.enter_context(closing(file))

        def step(counter: str, total: int, size: int, read: Any, work: Any, write: Any) -> None:
            """Work on what is not done; a piece is noted once it is on the disk."""
            done = getattr(partial.progress, counter)
            ends = [*range(done, total, size), total]
            with progress_bar(_NAMES[counter], total, shows, done=done) as advance:

                def store(piece: slice, made: Array) -> None:
                    write(piece, made)
                    partial.note(**{counter: piece.stop})
                    advance(piece.stop - piece.start)

                read_ahead(list(map(slice, ends, ends[1:])), read, work, store)

        result = opened(partial.RESULT, all_rows, sizes.channels, len(header))
        result.write_bytes(header)
        panels = opened("result.panels", all_rows, unit) if progress.scatters else result
        origin: ArraySource | PanelFile = source
        if progress.gathers and progress.diffused < sizes.channels:
            origin = opened("source.panels", all_nodes, unit)
            step(
                "gathered", sizes.num_nodes, budget.strip,
                lambda rows: source.read(rows, every), lambda rows, values: values,
                lambda rows, values, file=origin: file.write(rows, every, values),
            )  # fmt: skip
            source.check_unchanged()
        step(
            "diffused", sizes.channels, budget.width,
            lambda columns: origin.read(all_nodes, columns), flow.diffuse,
            lambda columns, values: panels.write(all_rows, columns, values),
        )  # fmt: skip
        if isinstance(origin, PanelFile):
            origin.close()  # an open file keeps its room on the disk
        else:
            source.check_unchanged()
        (partial.folder / "source.panels").unlink(missing_ok=True)
        if progress.scatters:
            step(
                "scattered", all_rows.stop, budget.strip,
                lambda rows: panels.read(rows, every), lambda rows, values: values,
                lambda rows, values: result.write(rows, every, values),
            )  # fmt: skip
        result.sync()


def read_ahead(
    pieces: Sequence[Piece],
    read: Callable[[Piece], Read],
    work: Callable[[Piece, Read], Made],
    write: Callable[[Piece, Made], None],
) -> None:
    """Work on every piece in order, while the next one is read and the last one is written.

    There is one thread that reads and one that writes; `work` is called in this one. At any time at
    most two pieces that were read and two that were made are held. An error of any of the three is
    raised here, once all calls that have begun are over; no later piece is written.

    Example:
        >>> done = []
        >>> def write(piece, made):
        ...     done.append(made)
        >>> read_ahead([1, 2], str, lambda piece, read: read * piece, write)
        >>> done
        ['1', '22']
    """
    if not pieces:
        return
    with ThreadPoolExecutor(1) as reader, ThreadPoolExecutor(1) as writer:
        ahead: Future[Read] = reader.submit(read, pieces[0])
        behind: Future[None] | None = None
        for place, piece in enumerate(pieces):
            taken = ahead.result()
            if place + 1 < len(pieces):
                ahead = reader.submit(read, pieces[place + 1])
            made = work(piece, taken)
            del taken
            if behind is not None:
                behind.result()
            behind = writer.submit(write, piece, made)
            del made
        if behind is not None:
            behind.result()


def _header(source: ArraySource, flow: ColumnFlow) -> bytes:
    """The header of the `.npy` file of the result."""
    num_nodes, channels, scales = flow.sizes[:3]
    shape = (scales, num_nodes, channels) if flow.has_scales else (num_nodes, channels)
    file, descr = BytesIO(), npy.dtype_to_descr(source.dtype)
    entries = {"descr": descr, "fortran_order": False, "shape": shape}
    npy.write_array_header_1_0(file, entries)
    return file.getvalue()


def _check_room(partial: PartialResult, flow: ColumnFlow, header: int) -> None:
    """Raise an OSError unless the disk has room for what is still to be written."""
    of_source = flow.sizes.column * flow.sizes.channels
    most = of_result = flow.sizes.scales * of_source
    if partial.progress.scatters:
        most += max(of_result, of_source if partial.progress.gathers else 0)
    missing = header + most - partial.num_bytes()
    free = shutil.disk_usage(partial.folder).free
    if missing > free:
        raise OSError(
            errno.ENOSPC,
            f"Expected 'target' to be on a disk with {in_words(missing)} free (got "
            f"{in_words(free)} beside '{partial.target}')",
        )
