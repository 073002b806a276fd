"""A bar for searches that take long."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress


@contextmanager
def progress_bar(
    name: str, total: int, shown: bool, console: Console | None = None
) -> Iterator[Callable[[int], object]]:
    """Show how many of `total` points are done; yield what is to be called with each new number.

    Silent where the output (standard error) is neither a terminal nor a notebook.
    """
    console = console or Console(stderr=True)
    if not shown or not (console.is_terminal or console.is_jupyter):
        yield lambda count: None
        return
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task(name, total=total)
        yield lambda count: progress.advance(task, count)
