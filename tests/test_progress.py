from io import StringIO

import pytest

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
