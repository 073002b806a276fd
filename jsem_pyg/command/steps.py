"""Messages on the standard error: a line for each step, and a bar while it takes long."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter

import click

from .._progress import open_bar, progress_bar


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun: "1 row", "2,000 rows"; `many` if an s is not enough."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


class Steps:
    """Log of the steps of a run, with their seconds."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.notes: list[str] = []

    def say(self, text: str) -> None:
        """Print a line; not on the standard output, which is for results."""
        click.echo(text, err=True)

    def note(self, text: str) -> None:
        """Print a line, and keep it for the report."""
        self.notes.append(text)
        self.say(text)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Measure a step, and show its name meanwhile."""
        with self._measured(name), open_bar(desc=name, bar_format="{desc} ..."):
            yield

    @contextmanager
    def counted_step(self, name: str, total: int) -> Iterator[Callable[[int], object]]:
        """Measure a step, with a bar; yields what is called with each number that is done."""
        with self._measured(name), progress_bar(name, total, True) as advance:
            yield advance

    @contextmanager
    def _measured(self, name: str) -> Iterator[None]:
        begin = perf_counter()
        yield
        self.seconds[name] = perf_counter() - begin
        self.say(f"{name}: {self.seconds[name]:.1f} s")


class _Said(logging.Handler):
    """Log records as lines of a command; warnings are noted."""

    def __init__(self, steps: Steps) -> None:
        super().__init__()
        self._steps = steps

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.levelno >= logging.WARNING:
            self._steps.note(f"{record.levelname.capitalize()}: {text}")
        else:
            self._steps.say(text)


@contextmanager
def logged(steps: Steps, verbose: bool) -> Iterator[None]:
    """Print what the package logs meanwhile: warnings, and all else if `verbose`."""
    logger, handler = logging.getLogger("jsem_pyg"), _Said(steps)
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG if verbose else logging.WARNING)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
