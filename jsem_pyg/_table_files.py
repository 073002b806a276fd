"""Read files of text, tables and arrays as a pandas table with the rows of the file."""

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
from typing import TYPE_CHECKING

import numpy as np

from ._extras import import_optional

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger(__name__)

_READING = "Reading a table"
SUFFIXES = (".txt", ".csv", ".tsv", ".jsonl", ".parquet", ".npy", ".npz")
_PACKED = ".gz"  # behind any of the first four
_DELIMITERS = ",;\t|"
_HEAD = 1 << 16  # characters in which the delimiter is looked for
# A first line that names the delimiter, as spreadsheets write it: no part of the table.
_NAMED = re.compile(r'"?sep=(?P<delimiter>[^"])"?\r?\n')
# The first of these arrays that an .npz holds has the points; numpy calls a lone array arr_0.
POINTS = ("x", "embeddings", "arr_0")
# The arrays of an .npz that hold labels, and those that give names to class indices.
LABELS = ("y", "labels")
CLASS_NAMES = ("target_names", "classes")
# Cells of a column of numbers that stand for a missing one, in lower case.
_MISSING = ("", "na", "n/a", "nan", "null", "none", "?", "-", ".")


@dataclass(frozen=True)
class Reading:
    """Options for reading a file; None: detected from the file, or as in most files."""

    delimiter: str | None = None
    encoding: str | None = None
    header: int = 1  # lines
    comment: str | None = None
    decimal: str | None = None
    thousands: str | None = None


def suffix_of(path: Path) -> str:
    """Return the suffix of the kind of a file, without a ``.gz``, or raise a ValueError."""
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
    """Read a file. Cells of text files are strings; an array [N, D] is a column of its rows.

    Raises:
        ValueError: if it has another suffix, or holds something else than that promises.
    """
    suffix = suffix_of(path)
    if suffix in (".npy", ".npz"):
        return _read_arrays(path)
    pd = import_optional("pandas", _READING)
    try:
        if suffix == ".parquet":
            import_optional("pyarrow.parquet", "Reading a .parquet file")
            table = pd.read_parquet(path, dtype_backend="numpy_nullable")
            if not isinstance(table.index, pd.RangeIndex):
                table = table.reset_index()
            return table.rename(columns=str)
        text = _read_text(path, reading.encoding)
        if suffix == ".jsonl":
            return _read_json_lines(text)
        if suffix == ".txt" and reading.delimiter is None:  # a document a line
            lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []
            return pd.DataFrame({"text": lines}, dtype=object)
        return _read_csv(text, "\t" if suffix == ".tsv" else None, reading)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"Expected '{path}' to be text in {error.encoding} (byte {error.object[error.start]:#x}"
            f" is not). To fix this, say which encoding it has, such as --encoding cp1252 for "
            "Western European text from Windows."
        ) from error
    except (ValueError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"Could not read '{path}' as a {suffix} file: {error}") from error


def _read_text(path: Path, encoding: str | None) -> str:
    unpack = gzip.open if path.name.lower().endswith(_PACKED) else open
    with unpack(path, "rb") as file:
        content = file.read()
    if encoding is None:
        encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    text = content.decode(encoding)
    if "\0" in text:  # pandas drops what follows one in its cell, in silence
        raise ValueError("it holds a null character. To fix this, look where it is damaged.")
    return text


def _read_json_lines(text: str) -> "pd.DataFrame":
    pd = import_optional("pandas", _READING)
    records = []
    for number, line in enumerate(text.split("\n"), 1):
        try:
            record = json.loads(line) if line.strip() else None
        except json.JSONDecodeError as error:
            raise ValueError(f"line {number} is no JSON ({error}).") from error
        if record is not None and not isinstance(record, dict):
            raise ValueError(f'line {number} is no object like {{"text": ...}}.')
        records += [] if record is None else [record]
    return pd.DataFrame(records, dtype=object)


def _read_csv(text: str, delimiter: str | None, reading: Reading) -> "pd.DataFrame":
    """Read all cells as they are written: "007" may be a code, and "NA" a document."""
    pd = import_optional("pandas", _READING)
    if named := _NAMED.match(text):
        text, delimiter = text[named.end() :], named["delimiter"]
    delimiter = reading.delimiter or delimiter or guess_delimiter(text)
    fix = (
        "To fix this, quote the cells that hold the delimiter, say which it is by --delimiter (got "
        f"{delimiter!r}), or leave out lines that begin with # by --comment '#'."
    )
    try:
        table = pd.read_csv(
            StringIO(text, newline=""),
            sep=r"\s+" if delimiter == " " else delimiter,
            header=list(range(reading.header)) if reading.header else None,
            comment=reading.comment,
            dtype=str,
            keep_default_na=False,
        )
    except pd.errors.ParserError as error:
        raise ValueError(f"{error}. {fix}") from error
    if not isinstance(table.index, pd.RangeIndex):  # surplus cells are row names
        raise ValueError(f"its rows are longer than its header. {fix}")
    if reading.header > 1:
        parts = ([each for each in name if "Unnamed:" not in each] for name in table.columns)
        table.columns = [" ".join(dict.fromkeys(each)) for each in parts]
    table.columns = [str(name) for name in table.columns]
    listed = ", ".join(map(repr, table.columns))
    logger.info("Delimiter %r, columns %s", delimiter, listed)
    if reading.header and not any(math.isnan(number_of(name)) for name in table.columns):
        logger.warning(
            "The header holds numbers alone: %.200s. Where it is a row like the others, pass "
            "--header 0.",
            listed,
        )
    return table


def number_of(cell: object) -> float:
    """Return the nearest float to a cell; NaN if it is no number, or is written as a program may.

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


def as_numbers(column: "pd.Series", reading: Reading | None = None) -> np.ndarray:
    """Read the numbers [N] of a column, NaN if a cell is none; "12.5%" is 12.5.

    Example:
        >>> import pandas as pd
        >>> as_numbers(pd.Series(["1.234,5", "7%", "?"]), Reading(decimal=",", thousands="."))
        array([1234.5,    7. ,    nan])
    """
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    if is_numeric_dtype(column) and not is_bool_dtype(column):
        return column.to_numpy(float, na_value=np.nan)
    cells = column.astype(object)
    cells = cells.where(cells.notna(), "").astype(str).str.strip().str.removesuffix("%")
    if reading is not None and reading.thousands:
        before = rf"(?<=\d){re.escape(reading.thousands)}(?=\d{{3}}(?:\D|$))"  # not in 28.01.2023
        cells = cells.str.replace(before, "", regex=True)
    if reading is not None and reading.decimal:
        cells = cells.str.replace(reading.decimal, ".", regex=False)
    return cells.map(number_of).to_numpy(float)


def as_text(cells: "pd.Series") -> list[str]:
    """Return the cells as they are written, empty where they are missing; 1.0 is 1."""
    is_float = cells.dtype.kind == "f"  # of float32, whose 0.1 is another number in float64
    written = cells.astype(str) if is_float else cells
    return [
        ""
        if missing
        else str(cell).removesuffix(".0" if is_float or isinstance(cell, float) else "")
        for cell, missing in zip(written, cells.isna(), strict=True)
    ]


def is_missing(column: "pd.Series") -> np.ndarray:
    """Return True [N] for cells that are empty, or a mark that tables have in place of a number."""
    return (column.isna() | column.astype(str).str.strip().str.lower().isin(_MISSING)).to_numpy()


def guess_delimiter(text: str) -> str:
    """Return the delimiter that divides the first line into the most cells, or a comma.

    Example:
        >>> guess_delimiter('id;"a, b, c";text')
        ';'
    """

    def fit(delimiter: str) -> tuple[bool, int]:
        lines = StringIO(text[:_HEAD].lstrip("\r\n"), newline="")
        cells = next(csv.reader(lines, delimiter=delimiter), [])
        return all('"' not in cell for cell in cells), len(cells)  # a cut quotation does not fit

    return max(_DELIMITERS, key=fit)


def _read_arrays(path: Path) -> "pd.DataFrame":
    """Read the arrays with as many rows as the points, by name."""
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
    """Return the array that names each class once; `classes` may be the class of each row."""
    found = (arrays[name] for name in CLASS_NAMES if name in arrays)
    is_once = (each for each in found if each.ndim == 1 and len(np.unique(each)) == len(each))
    return next(is_once, None)


@contextmanager
def open_arrays(path: Path, alone: str) -> Iterator[Mapping[str, np.ndarray]]:
    """Open the arrays of a file by name, the one of an .npy as `alone`; a look-up reads one.

    Raises:
        ValueError: if the file is damaged, or holds objects of Python, which could execute code.
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
    """Return class names in place of class indices, if the file has names for them."""
    if isinstance(column, list) or names is None or column.dtype.kind not in "iu":
        return column
    fits = len(column) > 0 and column.min() >= 0 and column.max() < len(names)
    return names[column] if fits else column
