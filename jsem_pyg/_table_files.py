"""Read files of text, tables and arrays as a pandas table with the rows of the file."""

import csv
import gzip
import json
import logging
import re
import zipfile
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from io import StringIO
from itertools import islice
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from ._extras import import_optional

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger(__name__)

SUFFIXES = (".txt", ".csv", ".tsv", ".jsonl", ".json", ".parquet", ".xlsx", ".npy", ".npz")
_PACKED = ".gz"  # behind any of the first five
_BROKEN = (gzip.BadGzipFile, zipfile.BadZipFile)
_DELIMITERS = ",;\t|"
_PADDED = re.compile(r'(?m)(^|[,;\t|\s"])0\d+($|[,;\t|\s"])')  # codes such as 007, perhaps
_HEAD = 1 << 16  # characters in which the delimiter and the header are looked for
_LINES = 20  # in which they are
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?|NA|NaN|nan")
_HEADER = re.compile(r"[-+]?\d*\.?\d+(\.\d+)?([eE][-+]?\d+(\.\d+)?)?")  # pandas adds .1 to twins
_YEAR = re.compile(r"\s*(1[5-9]|20)\d\d\s*")
_GROUPS = re.compile(r"[-+]?\d{1,3}( \d{3})+([.,]\d+)?|NA")  # one number, thousands apart
_COMMENTS = ("#", "//")
_MISSING = ["?", "-", "."]  # cells that stand for a missing one, beside those that pandas knows
# In a file with decimals such as 3,14 a point may be between thousands, which pandas cannot know.
_COMMA = re.compile(r'(?m)(^|[;\t|\s"])[-+]?[\d.]+,\d+($|[;\t|\s"])')
_THOUSANDS = r"[-+]?\d{1,3}(\.\d{3})*"
# Names of the arrays that an .npz may hold; numpy calls a lone array arr_0.
_POINTS = ("x", "embeddings", "arr_0")
_LABELS = ("y", "labels")
CLASS_NAMES = ("target_names", "classes")  # of class indices


@dataclass(frozen=True)
class Reading:
    """Options for reading a file, as pandas has them; None: detected, or as in most files."""

    delimiter: str | None = None
    encoding: str | None = None
    header: int = 1  # lines: one or none
    decimal: str | None = None


def suffix_of(path: Path) -> str:
    """Return the suffix of the kind of a file, without a ``.gz``, or raise a ValueError."""
    name = path.name.lower()
    suffix = Path(name.removesuffix(_PACKED)).suffix.replace(".geojson", ".json")
    packable = suffix in SUFFIXES[:5]
    if suffix not in SUFFIXES or (name.endswith(_PACKED) and not packable):
        raise ValueError(
            f"Expected a file that ends in one of {', '.join(SUFFIXES)}, the first five perhaps "
            f"with {_PACKED} (got '{path.name}')."
        )
    return suffix


def read_rows(
    path: Path, reading: Reading | None = None, strings: Collection[str] = ()
) -> "pd.DataFrame":
    """Read a file as pandas does: cells are numbers, booleans or strings, missing ones NA.

    An array [N, D] is a column "x" of its rows; labels beside it are a column "y". Columns
    `strings` of a text table are not converted: "007" stays what it is.

    Raises:
        ValueError: if it has another suffix, or holds something else than that promises.
    """
    reading, suffix = reading or Reading(), suffix_of(path)
    if path.stat().st_size == 0:
        raise ValueError(f"Expected a file with rows (got '{path}', which is empty).")
    pd = import_optional("pandas", "Reading a table")
    if suffix in (".npy", ".npz"):
        return pd.DataFrame(_columns_of_arrays(path))
    try:
        if suffix == ".parquet":
            import_optional("pyarrow.parquet", "Reading a .parquet file")
            table = pd.read_parquet(path, dtype_backend="numpy_nullable")
            if not isinstance(table.index, pd.RangeIndex):
                table = table.reset_index()
            return table.rename(columns=str)
        if suffix == ".xlsx":
            import_optional("openpyxl", "Reading an .xlsx file")
            book = pd.ExcelFile(path, engine="openpyxl")
            if len(book.sheet_names) > 1:
                logger.warning("Left out: all sheets but %r.", book.sheet_names[0])
            cells = book.parse(header=None, dtype=object, nrows=_LINES)
            rows = cells.map(str).where(cells.notna(), "").values.tolist()
            titles = _count_titles(rows, reading.header)
            _say_titles(titles)
            above = {"header": titles} if reading.header else {"header": None, "skiprows": titles}
            table = book.parse(na_values=_MISSING, dtype=object, **above)
            return _with_plain_names(table.convert_dtypes())
        text = _read_text(path, reading.encoding)
        if suffix in (".json", ".jsonl"):
            lines = [line for line in text.split("\n") if line.strip()]
            are_records = lines[1:] and all(line[0] + line.rstrip()[-1] == "{}" for line in lines)
            is_lines = suffix == ".jsonl" or are_records
            found = list(map(json.loads, lines)) if is_lines else json.loads(text)
            return pd.DataFrame(_records_of(found), dtype=object).convert_dtypes()
        if suffix == ".txt" and reading.delimiter is None:  # a document a line
            lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []
            return pd.DataFrame({"text": lines}, dtype=object)
        return _read_csv(text, "\t" if suffix == ".tsv" else None, reading, strings)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"Expected '{path}' to be text in {error.encoding} (byte {error.object[error.start]:#x}"
            f" is not). To fix this, say which encoding it has, such as --encoding cp1252 for "
            "Western European text from Windows."
        ) from error
    except (ValueError, KeyError, EOFError, zlib.error, *_BROKEN) as error:
        raise ValueError(f"Could not read '{path}' as a {suffix} file: {error}") from error


def _records_of(found: Any) -> Any:
    """Return what pandas makes a table of: records, or the cells of each column."""
    if isinstance(found, dict) and found:  # a FeatureCollection, an answer of a server, or columns
        names, rows = found.get("columns"), found.get("data")  # pandas' form "split"
        is_split = found.keys() <= {"columns", "index", "data"}
        if is_split and isinstance(names, list) and isinstance(rows, list):
            is_even = all(isinstance(row, list) and len(row) == len(names) for row in rows)
            if is_even and len({*map(str, names)}) == len(names):
                return [dict(zip(map(str, names), row, strict=True)) for row in rows]
        lists = [name for name, cells in found.items() if isinstance(cells, list)]
        records = [name for name in lists if found[name] and isinstance(found[name][0], dict)]
        sizes = {len(cells) if isinstance(cells, list) else -1 for cells in found.values()}
        if len(records) == 1:
            logger.warning("Left out: all but the records in %r.", records[0])
            found = found[records[0]]
        elif not records and ((lists and len(sizes) == 1) or _has_rows(found.values())):
            return found  # as pandas writes it
        elif _has_rows([found]) and all(isinstance(row, dict) for row in found.values()):
            found = list(found.values())
    if not isinstance(found, list) or not all(isinstance(record, dict) for record in found):
        raise ValueError(
            'Expected an object such as {"text": ...} and others, in one list or each in a line. '
            'To fix this, write it by pandas\' to_json(orient="records").'
        )
    if found and {"geometry", "properties"} <= found[0].keys():
        logger.warning("Left out: all but the properties of each feature, such as its place.")
        return [record.get("properties") or {} for record in found]
    return found


def _has_rows(cells: Collection[Any]) -> bool:
    """Return True if all columns are cells by the number of their row."""
    return all(isinstance(column, dict) and all(map(str.isdigit, column)) for column in cells)


def _with_plain_names(table: "pd.DataFrame") -> "pd.DataFrame":
    """Take blanks from the names of the columns, unless two were the same without."""
    names = [str(name) for name in table.columns]
    plain = [name.strip() for name in names]
    return table.set_axis(plain if len(set(plain)) == len(plain) else names, axis=1)


def _read_text(path: Path, encoding: str | None) -> str:
    unpack = gzip.open if path.name.lower().endswith(_PACKED) else open
    with unpack(path, "rb") as file:
        content = file.read()
    if encoding is None:
        encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    text = content.decode(encoding)
    if "\0" in text:  # pandas drops what follows one in its cell, in silence
        fix = "To fix this, look where it is damaged, or try --encoding utf-16-le."
        raise ValueError(f"it holds a null character. {fix}")
    return text


def _read_csv(
    text: str, delimiter: str | None, reading: Reading, strings: Collection[str]
) -> "pd.DataFrame":
    pd = import_optional("pandas", "Reading a table")
    text = text.lstrip("\r\n")
    delimiter = reading.delimiter or delimiter or _guess_delimiter(text, reading.header)
    fix = (
        "To fix this, quote the cells that hold the delimiter, say which it is by --delimiter "
        f"(got {delimiter!r}), or take away lines above the header or below the table."
    )
    rows, ends = _first_rows(text, delimiter)
    count = _count_longer if delimiter == " " else _count_titles
    if titles := count(rows, reading.header):
        _say_titles(titles)
        lines = StringIO(text, newline="")
        text = text[sum(len(next(lines)) for _ in range(ends[titles - 1])) :]
    text = re.sub(r"^\s*(#|//)", "", text) if delimiter == " " else text  # a mark is no cell
    head = rows[titles] if titles < len(rows) else []
    is_single = len(head) > 1 and all(re.fullmatch(r"\s*'[^']*'\s*", cell) for cell in head)
    strings = [*strings, *(cell for cell in head if cell.strip() in strings)]
    columns = strings if reading.header else [int(name) for name in strings if name.isdigit()]

    def read(**types: Any) -> Any:
        return pd.read_csv(
            StringIO(text, newline=""),
            sep=r"\s+" if delimiter == " " else delimiter,
            header=0 if reading.header else None,
            decimal=reading.decimal or ".",
            quotechar="'" if is_single else '"',
            skipinitialspace=len(head) > 1 and all(cell[:1] == " " for cell in head[1:]),
            na_values=_MISSING,
            float_precision="round_trip",  # pandas' own parser ends the process at 1e2147483648
            low_memory=False,  # a column has one type, not one for each part of the file
            **types,
        )

    try:
        table = read(dtype=dict.fromkeys(columns, str), dtype_backend="numpy_nullable")
        commas = not reading.decimal and (delimiter != "," or '"' in text) and _COMMA.search(text)
        if commas or _PADDED.search(text):
            for name, cells in read(dtype=str).items():
                is_float = commas and table[name].dtype == "Float64"
                is_grouped = is_float and cells.str.fullmatch(_THOUSANDS, na=True).all()
                if is_grouped or cells.str.fullmatch(r"0\d+").any():
                    table[name] = cells.convert_dtypes()
    except pd.errors.ParserError as error:
        raise ValueError(f"{error}. {fix}") from error
    if not isinstance(table.index, pd.RangeIndex):  # surplus cells are row names
        if delimiter != " ":
            raise ValueError(f"its rows are longer than its header. {fix}")
        table = table.reset_index()  # as R writes them
    table = _with_plain_names(table)
    listed = ", ".join(map(repr, table.columns))
    if reading.header and all(map(_HEADER.fullmatch, table.columns)):
        logger.warning("The header is %.200s. If it is a row, pass --header 0.", listed)
    elif reading.header and table.columns[0].startswith(_COMMENTS):
        logger.warning("The header is %.200s. If it is a comment, take it away.", listed)
    return table


def _first_rows(text: str, delimiter: str) -> tuple[list[list[str]], list[int]]:
    """Return the cells of the first rows, blank ones too, and the number of lines up to each."""
    rows, ends = [], []
    head, is_space = StringIO(text[:_HEAD], newline=""), delimiter == " "
    reader = csv.reader(head, delimiter=delimiter[:1], skipinitialspace=is_space)
    for row in islice(reader, _LINES):
        rows.append(row)
        ends.append(reader.line_num)
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
            is_whole = is_whole or not header or _is_data(rows[count + 1 : count + 3])
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
    return cells[1:] if cells and cells[0] in _COMMENTS else cells


def _is_comment(rows: list[list[str]], place: int, header: int, size: int) -> bool:
    """Return True if a row begins as a comment, and is not the header of `size` cells itself."""
    row, *after = [rows[place] or [""], *filter(None, rows[place + 1 : place + 4])]
    if not row[0].startswith(_COMMENTS) or not header or len(row) != size:
        return row[0].startswith(_COMMENTS)
    cells = [cell.strip() for cell in after[0]] if after else [""]
    is_data = any(cell in ("", *_MISSING) or _NUMBER.fullmatch(cell) for cell in cells)
    return not is_data and (cells[0].startswith(_COMMENTS) or any(map(_has_numbers, after[1:2])))


def _has_numbers(row: list[str]) -> bool:
    """Return True if a cell is a number, and no year."""
    return any(_NUMBER.fullmatch(cell.strip()) and not _YEAR.fullmatch(cell) for cell in row)


def _is_data(rows: list[list[str]]) -> bool:
    """Return True if two rows have numbers in the same column, and the first is no year."""
    pairs = zip(*rows, strict=False) if len(rows) == 2 else ()
    return any(_has_numbers([a]) and _NUMBER.fullmatch(b.strip()) for a, b in pairs)


def _say_titles(count: int) -> None:
    if count:
        rows = "the first row" if count == 1 else f"the first {count} rows"
        logger.warning("Left out, above the header: %s.", rows)


def _guess_delimiter(text: str, header: int) -> str:
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
        for odd in ":^~":
            is_text = odd == ":" and not all(_has_numbers(line.split(odd)) for line in lines[1:])
            if not is_text and len(n := {line.count(odd) for line in lines}) == 1 and n != {0}:
                raise ValueError(f"each line has a {odd!r}. To fix this, try --delimiter {odd!r}.")
        return best
    logger.warning("Columns are divided by white space; --delimiter says otherwise.")
    return " "


def as_text(cells: "pd.Series") -> list[str]:
    """Return the cells as texts, empty where they are missing."""
    texts: list[str] = cells.astype(str).where(cells.notna(), "").tolist()
    return texts


def _columns_of_arrays(path: Path) -> dict[str, Any]:
    """Read points [N, D] as rows, and labels [N] by the names of their classes."""
    x, y, classes = read_arrays(path)
    if x.ndim != 2 or (y is not None and y.shape != x.shape[:1]):
        shapes = [list(x.shape), *([] if y is None else [list(y.shape)])]
        raise ValueError(
            f"Expected '{path}' to hold points [N, D], perhaps with labels [N] (got {shapes})."
        )
    if y is None or y.dtype.kind not in "iu" or classes is None:
        return {"x": list(x)} if y is None else {"x": list(x), "y": y}
    once = len(np.unique(classes)) == len(classes)
    if not once or (len(y) and not 0 <= y.min() <= y.max() < len(classes)):
        raise ValueError(
            f"Expected '{path}' to name each class once, and class indices in [0, {len(classes)}) "
            f"(got {y.min()} to {y.max()})."
        )
    return {"x": list(x), "y": classes[y]}


def read_arrays(path: Path) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Read an ``.npy`` of points, or an ``.npz`` of points, perhaps labels, perhaps class names.

    Raises:
        ValueError: if the file is damaged, holds no points, or holds objects of Python, which
            could execute code.
    """
    with path.open("rb") as file:  # since np.load leaves a broken file open
        try:
            loaded = np.load(file, allow_pickle=False)
            arrays = {"x": loaded} if isinstance(loaded, np.ndarray) else loaded
            x, labels, names = (
                next((arrays[name] for name in candidates if name in arrays), None)
                for candidates in (_POINTS, _LABELS, CLASS_NAMES)
            )
        except (ValueError, EOFError, OSError, zlib.error, zipfile.BadZipFile) as error:
            # NumPy takes what it does not know for a pickle, and advises to execute it.
            pickled = "pickle" in str(error) and (
                "it holds objects of Python (a pickle), which are not read since they could "
                "execute code, or it is damaged."
            )
            raise ValueError(
                f"Could not read '{path}' as a file of arrays: {pickled or error}"
            ) from error
        if x is None:
            raise ValueError(
                f"Expected '{path}' to hold one of the arrays {', '.join(_POINTS)} (got "
                f"{', '.join(arrays)})."
            )
        return x, labels, names
