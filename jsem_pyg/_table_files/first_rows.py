"""See in the first rows of a text what divides its cells, names its columns, and is above."""

import csv
import logging
import re
from io import StringIO
from itertools import islice
from statistics import median

logger = logging.getLogger(__name__)

_HEAD = 1 << 16  # characters in which the delimiter and the header are looked for
_LINES = 20  # in which they are
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|NA|NaN|nan")
_YEAR = re.compile(r"\s*(1[5-9]|20)\d\d\s*")
_WRITTEN = re.compile(r"[-+(]?[\d.,'\s]*\d[\d.,'\s]*%?\)?")  # a number, as any country has it
NO_NUMBER = re.compile(
    r"[\W_]*|\([^\W\d]\)|\[\w+\]|[<>]?\s*(lo[dq]|bdl)|#[a-z]+[/\d]*[!?]?|[-+]?inf|na|n[./]\s?[ad]\.?|nd|nan|none|null|nil|"
    r"missing|unk(nown)?|not (available|applicable|reported|determined|detected|asked|given)|"
    r"tb[ad]|no (data|answer)|suppressed|withheld|unspecified|refused|declined",
    re.IGNORECASE,
)
_UNIT = re.compile(r"[%‰°$€£¥₹¢#)\]]")  # a sign, or letters in brackets
_DELIMITERS = ",;\t|"
_REGULAR = 0.9  # of the lines of a table, below titles and above notes
_GROUPS = re.compile(r"[-+]?\d{1,3}( \d{3})+([.,]\d+)?|NA")  # one number, thousands apart
_TIME = re.compile(r"\s*\d+:\d\d\s*")
_PAIRS = re.compile(r"[-+]?[\d.]+( +\d+:[-+.\d]\S*)+\s*$")
COMMENTS = ("#", "//")
MISSING = ["?", "-", "."]  # cells that stand for a missing one, beside those that pandas knows


def guess_delimiter(text: str, header: int) -> str:
    """Return the delimiter that divides the header into the most cells, or a comma.

    It is the first line, unless a delimiter divides all but the first lines alike. Where there is
    no delimiter, a space stands for white space that divides all lines alike, into numbers mostly.
    """
    text = text[:_HEAD].lstrip("\r\n")

    def fit(delimiter: str) -> tuple[bool, bool, int, int]:
        rows = _first_rows(text, delimiter)[0]
        titles = _count_titles(rows, header)
        cells = rows[titles] if rows else []
        is_alike = len(cells) > 1 and {len(row) for row in rows[titles:] if row} == {len(cells)}
        return all('"' not in cell for cell in cells), is_alike, -titles, len(cells)

    best = max(_DELIMITERS, key=fit)
    if fit(best)[-1] > 1:
        return best
    rows = _first_rows(text, " ")[0]
    divided = [each for row in rows[_count_longer(rows, header) :] if (each := _divided(row))]
    sizes = [len(row) for row in divided]
    cells = [cell for row in divided[1:] for cell in row]
    is_alike = len(set(sizes[1:])) == 1 and sizes[1] > 1 and sizes[1] - sizes[0] in (0, 1)
    is_one = all(_GROUPS.fullmatch(" ".join(row)) for row in divided[1:])  # 12 345.6
    if not is_alike or is_one or 2 * sum(map(bool, map(_NUMBER.fullmatch, cells))) <= len(cells):
        lines = [line for line in text.splitlines()[:_LINES] if line]
        are_pairs = (_has_numbers(x.split(":")) and not _TIME.fullmatch(x) for x in lines[1:])
        for odd in ":^~" if all(are_pairs) else "^~":
            if len(counts := {line.count(odd) for line in lines}) == 1 and counts != {0}:
                raise ValueError(f"each line has a {odd!r}. To fix this, try --delimiter {odd!r}.")
        return best
    logger.warning("Columns are divided by white space; --delimiter says otherwise.")
    return " "


def say_table(text: str) -> None:
    """Say which delimiter divides nearly all lines of a text alike, unless blanks are behind it."""
    for delimiter in ";\t|,":
        rows = [*csv.reader(StringIO(text[:_HEAD], newline=""), delimiter=delimiter)]
        size = int(median(map(len, rows))) if len(rows) > 2 else 1
        cells = [cell for row in rows if len(row) == size for cell in row[1:]]
        is_prose = all(cell[:1] == " " for cell in cells)
        if len(cells) >= _REGULAR * sum(map(bool, rows)) * (size - 1) and not is_prose:
            said = "Each line is a text, but %r divides all alike. Of a table, pass --delimiter %r."
            logger.warning(said, delimiter, delimiter)
            return


def check_no_pairs(text: str) -> None:
    """Raise a ValueError if a text has numbers by their index, as libsvm does."""
    lines = text[:_HEAD].splitlines()[:_LINES]
    if len(lines) > 1 and all(map(_PAIRS.match, lines)):
        read = "x, y = sklearn.datasets.load_svmlight_file(FILE)"
        fix = f"{read}; numpy.savez('points.npz', x=x.toarray(), y=y)"
        raise ValueError(f"each line has INDEX:NUMBER, as libsvm does. To fix this, run: {fix}")


def from_header(text: str, delimiter: str, header: int) -> tuple[str, list[str]]:
    """Return a text from its header on, in one line, and the cells of that; say what is left out.

    Without a header it begins with the first row of the table.
    """
    rows, ends = _first_rows(text, delimiter)
    titles = (_count_longer if delimiter == " " else _count_titles)(rows, header)
    names, start = rows[titles] if titles < len(rows) else [], titles
    if header and names and len(delimiter.strip(" ")) == 1:
        names, start = _name_columns(rows, titles)
    if start:
        lines = StringIO(text, newline="")
        text = text[sum(len(next(lines)) for _ in range(ends[start - 1])) :]
    if start > titles:
        line = StringIO()
        csv.writer(line, delimiter=delimiter, lineterminator="\n").writerow(names)
        text = line.getvalue() + text
    if start > max(titles, 1):
        logger.warning("The first %d rows are the header: %.200s.", start, ", ".join(names))
    elif titles:
        which = "the first row" if titles == 1 else f"the first {titles} rows"
        logger.warning("Left out, above the header: %s.", which)
    return text, names


def _first_rows(text: str, delimiter: str) -> tuple[list[list[str]], list[int]]:
    """Return the cells of the first rows, blank ones too, and the number of lines up to each."""
    head, is_space = StringIO(text[:_HEAD], newline=""), delimiter == " "
    reader = csv.reader(head, delimiter=delimiter[:1], skipinitialspace=is_space)
    lines = [(row, reader.line_num) for row in islice(reader, _LINES)]
    rows, ends = [row for row, _ in lines], [end for _, end in lines]
    return (rows, ends) if len(text) <= _HEAD or len(rows) == _LINES else (rows[:-1], ends[:-1])


def _count_titles(rows: list[list[str]], header: int) -> int:
    """Count the rows above the header: comments, and those that are half as full as most.

    There are none if rows below differ in length, or are texts with a blank behind each comma; of
    two columns only comments are, since a comma may cut "Doe, John"; and no row with all cells is
    one where there is no header, or where numbers follow.
    """
    filled = [sum(cell.strip() != "" for cell in row) for row in rows]
    sizes = [len(row) for row in rows]
    below = range(len(rows) // 2, len(rows))  # the table itself, mostly
    width, size = (int(median(each[i] for i in below)) if rows else 0 for each in (filled, sizes))
    least, is_whole = 2, False
    for count, row in enumerate(rows):
        is_comment = _is_comment(rows, count, header, size)
        if not is_comment and 2 * filled[count] > width:
            fits = width >= least and set(sizes[count:]) <= {0, size}
            cells = (cell for row in rows[count:] for cell in row[1:])
            is_prose = all(cell[:1] == " " and not _NUMBER.fullmatch(cell[1:]) for cell in cells)
            return count if fits and not (is_whole or is_prose) else 0
        least = least if is_comment or not row else 3
        is_lone = header and (filled[count] == 0 or (filled[count] == 1 and row[0].strip()))
        if len(row) == size and not (is_lone or is_comment):
            is_whole = is_whole or not header or any(map(_has_numbers, rows[count + 1 :][:1]))
    return 0


def _count_longer(rows: list[list[str]], header: int) -> int:
    """Count the rows above the header, which has as many cells as all below, divided by blanks.

    It has no numbers if there are rows above, and may have one cell less, as R writes it.
    """
    sizes = [len(_divided(row)) for row in rows]
    for count, size in enumerate(sizes[:-1]):
        below = {each for each in sizes[count + 1 :] if each}
        is_short = header and below == {size + 1} and _has_numbers(rows[count + 1])
        is_above = not size or _is_comment(rows, count, header, len(rows[count]))
        if not is_above and (below == {size} or is_short):
            return 0 if header and _has_numbers(rows[count]) else count
    return 0


def _divided(row: list[str]) -> list[str]:
    """Return what blanks divide, without the mark of a comment before it."""
    cells = [cell for cell in row if cell]
    return cells[1:] if cells and cells[0] in COMMENTS else cells


def _is_comment(rows: list[list[str]], place: int, header: int, size: int) -> bool:
    """Return True if a row begins as a comment, and is not the header of `size` cells itself."""
    row, *after = [rows[place] or [""], *filter(None, rows[place + 1 : place + 4])]
    if not row[0].startswith(COMMENTS) or not header or len(row) != size:
        return row[0].startswith(COMMENTS)
    cells = [cell.strip() for cell in after[0]] if after else [""]
    is_data = any(cell in ("", *MISSING) or _NUMBER.fullmatch(cell) for cell in cells)
    return not is_data and (cells[0].startswith(COMMENTS) or any(map(_has_numbers, after[1:2])))


def _has_numbers(row: list[str]) -> bool:
    """Return True if a cell is a number, and no year."""
    return any(_NUMBER.fullmatch(cell.strip()) and not _YEAR.fullmatch(cell) for cell in row)


def _name_columns(rows: list[list[str]], titles: int) -> tuple[list[str], int]:
    """Return the names of the columns, and the first row below if they are not in one line.

    Units or more names are in rows below the header that have no number above columns of numbers.
    A name that occurs twice is completed by the row above or below it: "Exports 2019".
    """
    names, *below = [[cell.strip() for cell in row] for row in rows[titles:]]
    more = max(k for k in range(4) if all(_names_more(row, below[k:]) for row in below[:k]))
    more = min(more, len(below))
    if {tuple(row[len(names) :]) for row in below if row} == {("",)}:
        return [*names, ""], titles + 1  # a delimiter ends each row below
    known, above = list(filter(None, names)), [cell.strip() for cell in rows[max(titles - 1, 0)]]
    if more and len(set(known)) < len(names):
        above, names = names, below[0]
    elif len(set(known)) == len(known) or len(above) != len(names) or not titles * any(above[1:]):
        return (names, titles + 1 + more) if more else (rows[titles], titles)
    merged = [next(filter(None, above[i::-1]), "") for i in range(len(above))]
    merged = merged if len(set(merged)) > 1 else [""] * len(merged)  # a title
    joined = [" ".join(filter(None, pair)) for pair in zip(merged, names, strict=True)]
    return joined, titles + 1 + more


def _names_more(row: list[str], below: list[list[str]]) -> bool:
    """Return True if a row has units or names, perhaps years, above most columns of numbers."""
    above = []
    for cell, *rest in zip(row, *below, strict=False):
        numbers = [each for each in rest if not NO_NUMBER.fullmatch(each)]
        is_year = _YEAR.fullmatch(cell) and not all(map(_YEAR.fullmatch, numbers))
        is_mark = cell and NO_NUMBER.fullmatch(cell) and not _UNIT.search(cell)
        if is_mark or (_WRITTEN.fullmatch(cell) and not is_year):
            return False
        if len(numbers) > 2 and all(map(_WRITTEN.fullmatch, numbers)):
            above.append(cell)
    named = sum(map(bool, above))
    return 2 * named > len(above) and (named > 1 or named == sum(map(bool, row)))
