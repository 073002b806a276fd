"""Read a file as a pandas table: documents, rows of text, records, a sheet, or arrays."""

import gzip
import json
import logging
import re
import zipfile
import zlib
from collections.abc import Collection
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._extras import import_optional
from .arrays import columns_of_arrays
from .first_rows import COMMENTS, MISSING, check_no_pairs, from_header, guess_delimiter, say_table
from .records import records_of

if TYPE_CHECKING:
    import pandas as pd

logger = logging.getLogger(__name__)

SUFFIXES = (".txt", ".csv", ".tsv", ".jsonl", ".json", ".parquet", ".xlsx", ".npy", ".npz")
_RECORD = re.compile(r"\{.*\}\s*")
_PACKED = ".gz"  # behind any of the first five
_BROKEN = (gzip.BadGzipFile, zipfile.BadZipFile)
_PADDED = re.compile(r'(?m)(^|[,;\t|\s"])0\d+($|[,;\t|\s"])')  # codes such as 007, perhaps
# A number or time as a name; pandas adds .1 to twins.
_HEADER = re.compile(r"[-+]?\d*\.?\d+(\.\d+)?([eE][-+]?\d+(\.\d+)?)?|\d+(:\d\d)+(\.\d+)?")
_COMMA = re.compile(r'(?m)(^|[;\t|\s"])[-+]?[\d.]+,\d+($|[;\t|\s"])')
_THOUSANDS = r"[-+]?\d{1,3}(\.\d{3})*"


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
    if suffix not in SUFFIXES[: 5 if name.endswith(_PACKED) else None]:
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
        return pd.DataFrame(columns_of_arrays(path))
    try:
        if suffix == ".parquet":
            import_optional("pyarrow.parquet", "Reading a .parquet file")
            table = pd.read_parquet(path, dtype_backend="numpy_nullable")
            if not isinstance(table.index, pd.RangeIndex):
                table = table.reset_index()
            return table.rename(columns=str)
        if suffix == ".xlsx":
            points = replace(reading, decimal=None)  # as numbers of a sheet have it
            return _read_table(_largest_sheet(path), ",", points, strings)
        text = _read_text(path, reading.encoding)
        if suffix in (".json", ".jsonl"):
            lines = [line for line in text.split("\n") if line.strip()]
            is_lines = suffix == ".jsonl" or (lines[1:] and all(map(_RECORD.fullmatch, lines)))
            found = list(map(json.loads, lines)) if is_lines else json.loads(text)
            return pd.DataFrame(records_of(found), dtype=object).convert_dtypes()
        check_no_pairs(text)
        if suffix == ".txt" and reading.delimiter is None:  # a document a line
            say_table(text)
            lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n") if text else []
            return pd.DataFrame({"text": lines}, dtype=object)
        return _read_table(text, "\t" if suffix == ".tsv" else None, reading, strings)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"Expected '{path}' to be text in {error.encoding} (byte {error.object[error.start]:#x}"
            f" is not). To fix this, say which encoding it has, such as --encoding cp1252 for "
            "Western European text from Windows."
        ) from error
    except (ValueError, KeyError, EOFError, zlib.error, *_BROKEN) as error:
        raise ValueError(f"Could not read '{path}' as a {suffix} file: {error}") from error


def _largest_sheet(path: Path) -> str:
    """Return the cells of the sheet that has the most, as a text of rows with commas."""
    import_optional("openpyxl", "Reading an .xlsx file")
    book = import_optional("pandas", "Reading a table").ExcelFile(path, engine="openpyxl")
    name = max(book.book.worksheets, key=lambda sheet: sheet.max_row * sheet.max_column).title
    if len(book.sheet_names) > 1:
        logger.warning("Left out: all sheets but %r.", name)
    text: str = book.parse(name, header=None, dtype=object).to_csv(index=False, header=False)
    return text


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


def _read_table(
    text: str, delimiter: str | None, reading: Reading, strings: Collection[str]
) -> "pd.DataFrame":
    """Read rows of cells with a delimiter between them, or one that is guessed."""
    pd = import_optional("pandas", "Reading a table")
    text = text.lstrip("\r\n")
    delimiter = reading.delimiter or delimiter or guess_delimiter(text, reading.header)
    delimiter = delimiter.replace(r"\t", "\t")  # as shells pass it on
    fix = (
        "To fix this, quote the cells that hold the delimiter, say which it is by --delimiter "
        f"(got {delimiter!r}), or take away lines above the header or below the table."
    )
    text, head = from_header(text, delimiter, reading.header)
    text = re.sub(r"^\s*(#|//)", "", text) if delimiter == " " else text  # a mark is no cell
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
            na_values=MISSING,
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
    plain = [" ".join(str(name).split()) for name in table.columns]  # in one line, but no twins
    table = table.set_axis(plain if len(set(plain)) == len(plain) else [*map(str, table)], axis=1)
    listed = ", ".join(map(repr, table.columns))
    if reading.header and all(map(_HEADER.fullmatch, table.columns)):
        logger.warning("The header is %.200s. If it is a row, pass --header 0.", listed)
    elif reading.header and table.columns[0].startswith(COMMENTS):
        logger.warning("The header is %.200s. If it is a comment, take it away.", listed)
    return table


def as_text(cells: "pd.Series") -> list[str]:
    """Return the cells as texts, empty where they are missing."""
    texts: list[str] = cells.astype(str).where(cells.notna(), "").tolist()
    return texts
