"""One reader of files: text, tables and arrays become a table that keeps every row of the file."""

import csv
import gzip
import json
import logging
import math
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import numpy as np

from ._extras import import_optional

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger(__name__)

_READING = "Reading a table"
SUFFIXES = (".txt", ".csv", ".tsv", ".jsonl", ".parquet", ".npy", ".npz")
_PACKED = ".gz"  # behind any of the first four
_DELIMITERS = ",;\t|"
# A first line that names the delimiter, as spreadsheets write it: no part of the table.
_NAMED = re.compile(r'"?sep=(?P<delimiter>[^"])"?\r?\n?')
# The first of these arrays that an .npz holds has the points; numpy calls a lone array arr_0.
POINTS = ("x", "embeddings", "arr_0")
# The arrays of an .npz that hold labels, and those that give names to class indices.
LABELS = ("y", "labels")
CLASS_NAMES = ("target_names", "classes")
_HEAD = 1 << 16  # characters in which the delimiter is looked for
_PART = 1 << 22  # characters that are looked through at once
_MOST_NAMED = 5  # columns in a message
_LONGEST_CELL = 2**31 - 1  # which Python limits to 131,072 characters otherwise


@dataclass(frozen=True)
class Reading:
    """Options for reading a file; None: detected from the file itself."""

    delimiter: str | None = None
    encoding: str | None = None
    header: bool = True


def suffix_of(path: Path) -> str:
    """The suffix of the kind of a file, without a ``.gz``.

    Raises:
        ValueError: if it is none that can be read.
    """
    name = path.name.lower()
    suffix = Path(name.removesuffix(_PACKED)).suffix
    packable = suffix in SUFFIXES[:4]
    if suffix not in SUFFIXES or (name.endswith(_PACKED) and not packable):
        raise ValueError(
            f"Expected a file that ends in one of {', '.join(SUFFIXES)}, the first four perhaps "
            f"with {_PACKED} (got '{path.name}')."
        )
    return suffix


def read_rows(path: Path, reading: Reading) -> "pd.DataFrame":
    """Read a file; an array [N, D] becomes a column whose cells are its rows.

    Raises:
        ValueError: if it has another suffix, or holds something else than that promises.
        ImportError: if a package is missing that such a file needs.
        OSError: if it cannot be read.
    """
    suffix = suffix_of(path)
    if suffix in (".npy", ".npz"):
        return _read_arrays(path)
    try:
        if suffix == ".parquet":
            return _read_parquet(path)
        with _open_text(path, reading.encoding) as file:
            if suffix == ".txt":
                return _read_lines(file)
            if suffix == ".jsonl":
                return _read_json_lines(file)
            return _read_csv(file, "\t" if suffix == ".tsv" else None, reading)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"Expected '{path}' to be text in {error.encoding} (byte {error.object[error.start]:#x}"
            f" is not). To fix this, say which encoding it has, such as --encoding cp1252 for "
            "Western European text from Windows."
        ) from error
    except (ValueError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"Could not read '{path}' as a {suffix} file: {error}") from error


@contextmanager
def _open_text(path: Path, encoding: str | None) -> Iterator[TextIO]:
    unpack = gzip.open if path.name.lower().endswith(_PACKED) else open
    if encoding is None:
        with unpack(path, "rb") as head:
            mark = head.read(2)
        encoding = "utf-16" if mark in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    with unpack(path, "rt", encoding=encoding, newline="") as file:
        yield file


def _read_lines(file: TextIO) -> "pd.DataFrame":
    """One document a line; an empty line is an empty document."""
    pd = import_optional("pandas", _READING)
    # Split at line ends only, where str.splitlines also splits at form feeds.
    text = file.read().replace("\r\n", "\n").replace("\r", "\n")
    lines = text.removesuffix("\n").split("\n") if text else []
    return pd.DataFrame({"text": lines}, dtype=object)


def _read_json_lines(file: TextIO) -> "pd.DataFrame":
    pd = import_optional("pandas", _READING)
    records = []
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise ValueError(f"line {number} is no JSON ({error}).") from error
        if not isinstance(record, dict):
            raise ValueError(f'line {number} is no object like {{"text": ...}}.')
        if "\\ud" in line.lower():
            _check_whole(record, number)
        records.append(record)
    return pd.DataFrame(records, dtype=object)


def _check_whole(record: dict, number: int) -> None:
    """Refuse halves of characters, which JSON can hold and no text file of the results."""
    try:
        json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"line {number} holds half of a character ({error.object[error.start]!r}), as a text "
            "has that was cut within an emoji. To fix this, leave it out."
        ) from error


def _read_csv(file: TextIO, delimiter: str | None, reading: Reading) -> "pd.DataFrame":
    pd = import_optional("pandas", _READING)
    # Blank lines before the first other one: rows of a file without a header, else nothing.
    place, empty = 0, -1
    line = "\n"
    while line and not line.strip():
        place, empty, line = file.tell(), empty + 1, file.readline()
    if not line:
        raise ValueError("it has no line that is not empty.")
    named = _NAMED.fullmatch(line)
    if named:
        place, delimiter = file.tell(), named["delimiter"]
    file.seek(place)
    delimiter = reading.delimiter or delimiter or guess_delimiter(file.read(_HEAD))
    file.seek(place)
    while part := file.read(_PART):  # pandas drops what follows one in its cell, in silence
        if "\0" in part:
            raise ValueError("it holds a null character. To fix this, look where it is damaged.")
    file.seek(place)
    # All as text: a document "NA" is not a missing value, and "007" not a number. An empty line
    # is a row, too.
    table = pd.read_csv(
        file,
        sep=delimiter,
        header=0 if reading.header else None,
        dtype=str,
        keep_default_na=False,
        skip_blank_lines=False,
    )
    if not isinstance(table.index, pd.RangeIndex):  # pandas takes surplus cells for row names
        raise ValueError(
            "its rows are longer than its header. To fix this, quote the cells that hold the "
            f"delimiter, or say which it is by --delimiter (got {delimiter!r})."
        )
    table.columns = [str(name) for name in table.columns]
    listed = ", ".join(map(repr, table.columns))
    logger.info("Encoding %s, delimiter %r, columns %s", file.encoding, delimiter, listed)
    if reading.header and not any(math.isnan(number_of(name)) for name in table.columns):
        logger.warning(
            "The header holds numbers alone: %s. Where it is a row like the others, pass "
            "--no-header.",
            ", ".join(table.columns[:_MOST_NAMED]) + ", ..." * (table.shape[1] > _MOST_NAMED),
        )
    file.seek(place)
    width = table.shape[1]
    above = empty + bool(named)
    short = [(above + begin, n) for begin, n in _count_cells(file, delimiter) if n < width]
    if short:
        begin, count = short[0]
        logger.warning(
            "Rows with fewer cells than the table has columns: %d, the first in line %d, which "
            "lacks %s. What they lack is taken for empty. Is the file cut off, or is there a line "
            "end in a cell without quotes?",
            len(short),
            begin,
            ", ".join(map(repr, table.columns[count:])),
        )
    table = table.astype(object).fillna("")
    if empty and not reading.header:
        blank = pd.DataFrame("", index=range(empty), columns=table.columns, dtype=object)
        table = pd.concat([blank, table], ignore_index=True)
    return table


def _count_cells(file: TextIO, delimiter: str) -> Iterator[tuple[int, int]]:
    """The line in which each row begins, from 1 on, and its number of cells; no empty rows."""
    previous = csv.field_size_limit(_LONGEST_CELL)
    try:
        rows, line = csv.reader(file, delimiter=delimiter), 1
        for cells in rows:
            if any(cell.strip() for cell in cells):
                yield line, len(cells)
            line = rows.line_num + 1
    finally:
        csv.field_size_limit(previous)


def number_of(cell: object) -> float:
    """The nearest float to a cell; NaN where it is no number, or is written as a program may.

    Not by pandas, which ends the process at "1e2147483648", as codes of digits and letters may be.

    Example:
        >>> number_of(" 1.5e3"), number_of("1_500"), number_of("1,5"), number_of(None)
        (1500.0, nan, nan, nan)
    """
    if isinstance(cell, str) and ("_" in cell or not cell.isascii()):
        return math.nan
    try:
        return float(cell)  # type: ignore[arg-type]  # whatever else it is
    except (ValueError, TypeError, OverflowError):
        return math.nan


def guess_delimiter(head: str) -> str:
    """The delimiter that divides the first line into the most cells; a comma if none does.

    Example:
        >>> guess_delimiter('id;"a, b, c";text')
        ';'
    """

    def fit(delimiter: str) -> tuple[bool, int]:
        lines = StringIO(head, newline="")  # str.splitlines also splits at form feeds
        cells = next(csv.reader(lines, delimiter=delimiter), [])
        return all('"' not in cell for cell in cells), len(cells)  # a cut quotation does not fit

    return max(_DELIMITERS, key=fit)


def _read_parquet(path: Path) -> "pd.DataFrame":
    """Integers stay integers beside missing ones, of which pandas alone would make floats."""
    pd = import_optional("pandas", _READING)
    parquet = import_optional("pyarrow.parquet", "Reading a .parquet file")
    table = parquet.read_table(path, partitioning=None).to_pandas(integer_object_nulls=True)
    if not isinstance(table.index, pd.RangeIndex):
        table = table.reset_index()
    table.columns = [str(name) for name in table.columns]
    return table


def _read_arrays(path: Path) -> "pd.DataFrame":
    """The arrays with as many rows as the points, by name."""
    pd = import_optional("pandas", _READING)
    with open_arrays(path, alone="x") as loaded:
        arrays = dict(loaded)
    tables = {name: array for name, array in arrays.items() if array.ndim == 2}
    if not tables:
        shapes = ", ".join(f"{name} {list(array.shape)}" for name, array in arrays.items())
        raise ValueError(
            f"Expected '{path}' to hold an array of shape [N, D] (got {shapes or 'none'})."
        )
    points = next((name for name in POINTS if name in tables), next(iter(tables)))
    count = len(tables[points])
    columns = {
        name: list(array) if array.ndim == 2 else array
        for name, array in arrays.items()
        if array.ndim in (1, 2) and len(array) == count
    }
    for name in LABELS:
        if name in columns:
            columns[name] = _named(columns[name], class_names(arrays))
    return pd.DataFrame(columns)


def class_names(arrays: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """The array that names each class once, or None; `classes` may be the class of each row."""
    found = (arrays[name] for name in CLASS_NAMES if name in arrays)
    is_once = (each for each in found if each.ndim == 1 and len(np.unique(each)) == len(each))
    return next(is_once, None)


@contextmanager
def open_arrays(path: Path, alone: str) -> Iterator[Mapping[str, np.ndarray]]:
    """The arrays of a file by name, that of an .npy as `alone`; read where they are looked up.

    Raises:
        ValueError: if the file is damaged, or holds objects of Python, which could execute code.
        OSError: if the file cannot be opened.
    """
    with path.open("rb") as file:  # since np.load leaves a broken file open
        try:
            loaded = np.load(file, allow_pickle=False)
            yield {alone: loaded} if isinstance(loaded, np.ndarray) else loaded
        except (ValueError, EOFError, OSError, zlib.error, zipfile.BadZipFile) as error:
            # NumPy takes what it does not know for a pickle, and advises to execute it.
            pickled = "pickle" in str(error) and (
                "it holds objects of Python (a pickle), which are not read since they could "
                "execute code, or it is damaged."
            )
            raise ValueError(
                f"Could not read '{path}' as a file of arrays: {pickled or error}"
            ) from error


def _named(column: list | np.ndarray, names: np.ndarray | None) -> list | np.ndarray:
    """Class names in place of class indices, where the column has such and the file has names."""
    if isinstance(column, list) or names is None or column.dtype.kind not in "iu":
        return column
    fits = len(column) > 0 and column.min() >= 0 and column.max() < len(names)
    return names[column] if fits else column
