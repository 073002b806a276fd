"""Say what a run does, on the standard error."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

import click

from .._progress import open_bar


def counted(number: int, one: str, many: str = "") -> str:
    """Write a number with its noun: "1 row", "2,000 rows"; `many` if an s is not enough."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


class Steps(logging.Handler):
    """Prints the steps of a run and what the package logs; keeps seconds, and notes for a report.

    Nothing goes to the standard output, which is for results.
    """

    def __init__(self) -> None:
        super().__init__()
        self.seconds: dict[str, float] = {}
        self.notes: list[str] = []

    def say(self, text: str) -> None:
        """Print a line."""
        click.echo(text, err=True)

    def note(self, text: str) -> None:
        """Print a line, and keep it for the report."""
        self.notes.append(text)
        self.say(text)

    @contextmanager
    def step(self, name: str, total: int | None = None) -> Iterator[Callable[[int], object]]:
        """Measure a step, with a bar; yield what is called with each number of the total done."""
        begin = perf_counter()
        form = None if total else "{desc} ..."
        with open_bar(desc=name, total=total, bar_format=form) as bar:
            yield bar.update
        self.seconds[name] = perf_counter() - begin
        self.say(f"{name}: {self.seconds[name]:.1f} s")

    def emit(self, record: logging.LogRecord) -> None:
        """Print a log record; a warning is a note."""
        if record.levelno >= logging.WARNING:
            self.note(f"{record.levelname.capitalize()}: {record.getMessage()}")
        else:
            self.say(record.getMessage())

    @contextmanager
    def listening(self, verbose: bool) -> Iterator[None]:
        """Print what the package logs meanwhile: warnings, and all else if `verbose`."""
        logger = logging.getLogger("jsem_pyg")
        level = logger.level
        logger.addHandler(self)
        logger.setLevel(logging.DEBUG if verbose else logging.WARNING)
        try:
            yield
        finally:
            logger.removeHandler(self)
            logger.setLevel(level)
