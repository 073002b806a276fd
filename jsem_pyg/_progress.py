"""Draws progress bars of long runs, in a terminal or a notebook only."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any


@contextmanager
def progress_bar(
    name: str, total: int, shown: bool, done: int = 0
) -> Iterator[Callable[[int], object]]:
    """Show how many of `total` points are done; yield a function that takes each new number.

    The time left is estimated from the points that come after the first `done`.
    """
    with open_bar(shown, desc=name, total=total, initial=done) as bar:
        yield bar.update


def open_bar(shown: bool = True, **options: Any) -> Any:
    """Make a bar of tqdm, silent unless the standard error (or `file`) is a terminal or a notebook.

    The options are tqdm's; the bar goes when it is done, unless ``leave=True``.
    """
    # Without ipywidgets a bar of a notebook would warn instead.
    if find_spec("ipywidgets") is None:
        from tqdm import tqdm
    else:
        from tqdm.auto import tqdm
    return tqdm(**{"leave": False, **options, "disable": None if shown else True})
