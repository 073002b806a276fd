"""Find the records, or the columns, in what a JSON file holds."""

import logging
from collections.abc import Collection
from typing import Any

logger = logging.getLogger(__name__)


def records_of(found: Any) -> Any:
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
        found = [record.get("properties") or {} for record in found]
    return list(map(_flat, found))


def _flat(record: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Put what a record holds in a record of it beside its other cells, as "user.age"."""
    cells: dict[str, Any] = {}
    for name, cell in record.items():
        inner = _flat(cell, f"{before}{name}.") if isinstance(cell, dict) else {}
        cells |= inner or {before + name: cell}
    return cells


def _has_rows(cells: Collection[Any]) -> bool:
    """Return True if all columns are cells by the number of their row."""
    return all(isinstance(column, dict) and all(map(str.isdigit, column)) for column in cells)
