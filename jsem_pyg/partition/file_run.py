"""From file to file in three steps: rows into panels, panels through time, panels into rows."""

import errno
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from numpy.lib import format as npy
from numpy.typing import NDArray

from .._progress import progress_bar
from .array_source import ArraySource
from .column_flow import ColumnFlow
from .memory_limit import in_words
from .panel_file import PanelFile
from .panel_width import Budget
from .partial_result import PartialResult, Progress
from .read_ahead import read_ahead

Array = NDArray[Any]

# From so many panels on, rows are sorted into panels first: that reads everything twice and writes
# it once, instead of reading everything once for each panel.
_MANY_PANELS = 4


def first_progress(source: ArraySource, budget: Budget) -> Progress:
    """Where a run begins: with the steps that it needs."""
    panels = -(-source.shape[1] // budget.width)
    return Progress(gathers=panels >= _MANY_PANELS and not source.by_columns, scatters=panels > 1)


class _Step(NamedTuple):
    """Pieces of rows or columns, from `done` to `total`, that are read, worked on and written."""

    name: str
    counter: str  # where the journal counts them
    total: int
    size: int  # of a piece
    read: Callable[[slice], Array]
    work: Callable[[slice, Array], Array]
    file: PanelFile
    place: Callable[[slice], tuple[slice, slice]]  # the rows and columns of a piece in the file


class FileRun:
    """One call at work on a partial result.

    Panels in files have the width of a unit, whatever the memory: a run that goes on may have
    another limit, and takes other numbers of them at once.

    Args:
        source: what is diffused.
        flow: what diffuses it.
        budget: how much at once.
        partial: what there is of the result.
        shows: whether to show bars.
    """

    def __init__(
        self,
        source: ArraySource,
        flow: ColumnFlow,
        budget: Budget,
        partial: PartialResult,
        shows: bool,
    ) -> None:
        self.source, self.flow, self.budget = source, flow, budget
        self.partial, self.shows = partial, shows

    def run(self) -> None:
        """Do what is left to do."""
        begun = self.partial.progress
        num_nodes, channels, scales = self.flow.sizes[:3]
        rows, header = scales * num_nodes, self._header()
        self._check_room(len(header))
        with ExitStack() as files:

            def opened(path: Path, num_rows: int, width: int, offset: int = 0) -> PanelFile:
                shape = (num_rows, channels)
                file = PanelFile(path, shape, width, self.source.dtype, offset, writes=True)
                return files.enter_context(file)

            result = opened(self.partial.result, rows, channels, len(header))
            result.write_bytes(header)
            panels = result
            if begun.scatters:
                panels = opened(self.partial.file("result.panels"), rows, self.flow.sizes.unit)
            origin: ArraySource | PanelFile = self.source
            if begun.gathers and begun.diffused < channels:
                sorted_rows = self.partial.file("source.panels")
                origin = opened(sorted_rows, num_nodes, self.flow.sizes.unit)
                self._gather(origin)
            self._diffuse(origin, panels)
            if isinstance(origin, PanelFile):
                origin.close()  # an open file keeps its room on the disk
            self.partial.file("source.panels").unlink(missing_ok=True)
            if begun.scatters:
                self._scatter(panels, result)
            result.sync()

    def _gather(self, panels: PanelFile) -> None:
        every = slice(0, self.source.shape[1])
        self._take(
            _Step(
                "reading",
                "gathered",
                self.source.shape[0],
                self.budget.strip,
                lambda rows: self.source.read(rows, every),
                lambda rows, values: values,
                panels,
                lambda rows: (rows, every),
            )
        )
        self.source.check_unchanged()

    def _diffuse(self, origin: ArraySource | PanelFile, panels: PanelFile) -> None:
        every = slice(0, self.source.shape[0])
        self._take(
            _Step(
                "diffusing",
                "diffused",
                self.source.shape[1],
                self.budget.width,
                lambda columns: origin.read(every, columns),
                self.flow.diffuse,
                panels,
                lambda columns: (slice(0, panels.shape[0]), columns),
            )
        )
        if isinstance(origin, ArraySource):
            origin.check_unchanged()

    def _scatter(self, panels: PanelFile, result: PanelFile) -> None:
        every = slice(0, result.shape[1])
        self._take(
            _Step(
                "writing",
                "scattered",
                result.shape[0],
                self.budget.strip,
                lambda rows: panels.read(rows, every),
                lambda rows, values: values,
                result,
                lambda rows: (rows, every),
            )
        )

    def _take(self, step: _Step) -> None:
        """Take a step from where it was left; what is noted of it is on the disk."""
        done = getattr(self.partial.progress, step.counter)
        pieces = [
            slice(begin, min(begin + step.size, step.total))
            for begin in range(done, step.total, step.size)
        ]
        with progress_bar(step.name, step.total, self.shows, done=done) as advance:

            def write(piece: slice, values: Array) -> None:
                step.file.write(*step.place(piece), values)
                step.file.sync()
                self.partial.note(**{step.counter: piece.stop})
                advance(piece.stop - piece.start)

            read_ahead(pieces, step.read, step.work, write)

    def _header(self) -> bytes:
        """What a `.npy` file of the result begins with."""
        num_nodes, channels, scales = self.flow.sizes[:3]
        shape = (scales, num_nodes, channels) if self.flow.has_scales else (num_nodes, channels)
        file = BytesIO()
        descr = npy.dtype_to_descr(self.source.dtype)
        told = {"descr": descr, "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(file, told)
        return file.getvalue()

    def _check_room(self, header: int) -> None:
        """Raise an OSError unless the disk has room for what is still to be written."""
        begun = self.partial.progress
        of_source = self.flow.sizes.column * self.flow.sizes.channels
        of_result = self.flow.sizes.scales * of_source
        most = of_result
        if begun.scatters:
            most = of_result + max(of_result, of_source if begun.gathers else 0)
        missing = header + most - self.partial.num_bytes()
        free = shutil.disk_usage(self.partial.folder).free
        if missing > free:
            raise OSError(
                errno.ENOSPC,
                f"Expected 'target' to be on a disk with {in_words(missing)} free (got "
                f"{in_words(free)} beside '{self.partial.target}')",
            )
