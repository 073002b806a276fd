from io import StringIO

import pytest
from rich.console import Console

from jsem_pyg import _progress
from jsem_pyg._progress import is_watched, progress_bar


@pytest.mark.parametrize(("terminal", "shown"), [(True, True), (True, False), (False, True)])
def test_a_bar_is_drawn_where_there_is_somebody_to_see_it(terminal, shown):
    drawn = StringIO()
    console = Console(file=drawn, force_terminal=terminal)
    with progress_bar("neighbours", 10, shown, console) as advance:
        advance(4)
        advance(6)
    assert ("neighbours" in drawn.getvalue()) == (terminal and shown)
    assert ("100%" in drawn.getvalue()) == (terminal and shown)


@pytest.mark.parametrize("has_widgets", [True, False])
def test_a_notebook_without_widgets_gets_no_bar(has_widgets, monkeypatch):
    monkeypatch.setattr(_progress, "find_spec", lambda name: object() if has_widgets else None)
    assert is_watched(Console(file=StringIO(), force_jupyter=True)) == has_widgets
