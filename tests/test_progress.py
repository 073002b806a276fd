from io import StringIO

import pytest

from jsem_pyg import _progress
from jsem_pyg._progress import open_bar


class Terminal(StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(("file", "shown"), [(Terminal, True), (Terminal, False), (StringIO, True)])
def test_a_bar_is_drawn_where_there_is_somebody_to_see_it(file, shown):
    drawn = file()
    with open_bar(shown, desc="neighbours", total=10, file=drawn) as bar:
        bar.update(4)
        bar.update(6)
    assert ("neighbours" in drawn.getvalue()) == (file is Terminal and shown)


@pytest.mark.parametrize("found", [None, "a package"])
def test_bars_of_notebooks_are_tried_only_with_the_package_that_draws_them(monkeypatch, found):
    made = []
    for name in ("tqdm.tqdm", "tqdm.auto.tqdm"):
        monkeypatch.setattr(name, lambda *_, name=name, **__: made.append(name))
    monkeypatch.setattr(_progress, "find_spec", lambda package: found)
    open_bar()
    assert made == ["tqdm.auto.tqdm" if found else "tqdm.tqdm"]
