"""Tables in any dialect, against Python's own reader of CSV.

A few cases in every run, as many as `JSEM_CASES` on demand, see `settings.py`.
"""

import csv
import gzip
import io
import tempfile
from pathlib import Path

from hypothesis import assume, given
from hypothesis import strategies as st
from trust.settings import draws

from jsem_pyg._table_files import Reading, read_rows

PLAIN = ["a", "b c", "1", "2.5", "007", "NA", "nan", "-0", "1e400", "2020-01-01", "True"]
ODD = ["", " ", "  lead", "trail  ", "1,5", "a;b", "a|b", "tab\there", 'q"uote', '"', "'a'", "#c"]
MARKS = ["line\nbreak", "line\r\nbreak", "\\n", "é", "日本", "u\u2028x", "f\x0c", "s\x1c", "n\x85"]
CELLS = st.sampled_from(PLAIN + ODD + MARKS)
ENCODINGS = ["utf-8", "utf-8-sig", "utf-16"]  # known by their marks, or the default


@draws(30)
@given(st.data())
def test_every_cell_is_read_as_written(data):
    width, count = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 5))
    rows = [[data.draw(CELLS) for _ in range(width)] for _ in range(count)]
    first = data.draw(st.lists(CELLS, min_size=width, max_size=width, unique=True))
    assume(any(cell.strip() for cell in first))  # blank lines before the header are left out
    delimiter = data.draw(st.sampled_from(",;\t|"))
    end = data.draw(st.sampled_from(["\n", "\r\n"]))
    quoting = data.draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, quoting=quoting, lineterminator=end)
    writer.writerows([first, *rows])
    content = text.getvalue().encode(data.draw(st.sampled_from(ENCODINGS)))
    is_packed, has_header = data.draw(st.booleans()), data.draw(st.booleans())
    # What divides the first line is guessed where no cell of it divides more.
    is_clear = width > 1 and not any(mark in cell for cell in first for mark in ",;\t|")
    given_delimiter = None if is_clear and data.draw(st.booleans()) else delimiter
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / ("table.csv" + ".gz" * is_packed)
        path.write_bytes(gzip.compress(content) if is_packed else content)
        table = read_rows(path, Reading(given_delimiter, header=int(has_header)))
    assert table.to_numpy().tolist() == (rows if has_header else [first, *rows])
