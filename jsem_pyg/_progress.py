"""Bars for what takes long, where there is somebody to see them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


@contextmanager
def progress_bar(
    name: str, total: int, shown: bool, console: "Console | None" = None, done: int = 0
) -> Iterator[Callable[[int], object]]:
    """Show how many of `total` points are done; yield what is to be called with each new number.

    The time left is guessed from those that come after the first `done`, which are there already.
    Silent where nobody sees it, see :func:`is_watched`.
    """
    from rich.console import Console
    from rich.progress import Progress

    console = console or Console(stderr=True)
    if not (shown and is_watched(console)):
        yield lambda count: None
        return
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task(name, total=total, completed=done)
        yield lambda count: progress.advance(task, count)


def is_watched(console: "Console") -> bool:
    """Whether a bar is seen: in a terminal, or in a notebook that can draw one.

    In a notebook without ipywidgets, rich would warn at every bar instead.
    """
    return console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)
