"""Scores, settings and versions, as texts for tables."""

import platform
import sys
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

from .._extras import version_of

PACKAGES = (
    *("jsem_pyg", "torch", "torch-geometric", "numpy", "scipy", "scikit-learn", "faiss-cpu"),
    *("numba", "umap-learn", "plotly"),
)


class Table(NamedTuple):
    """Texts in rows."""

    columns: list[str]
    rows: list[list[str]]


def score_table(scores: Any) -> Table | None:
    """A row for each method, or, of plain numbers, for each score; see :func:`.report`."""
    if scores is None:
        return None
    pandas = sys.modules.get("pandas")  # without it there are no data frames
    if pandas is not None and isinstance(scores, pandas.DataFrame):
        return _of_frame(scores)
    if not isinstance(scores, Mapping):
        raise TypeError(
            "Expected 'scores' to be a pandas.DataFrame or a mapping (got "
            f"{type(scores).__name__})."
        )
    if scores and all(isinstance(each, Mapping) for each in scores.values()):
        columns = list(dict.fromkeys(name for each in scores.values() for name in each))
        rows = [
            [str(method), *(_text(each[name]) if name in each else "" for name in columns)]
            for method, each in scores.items()
        ]
        return Table(["", *map(str, columns)], rows)
    return Table(["score", "value"], [[str(name), _text(each)] for name, each in scores.items()])


def _of_frame(frame: Any) -> Table:
    """Columns of means are joined by those of their spread."""
    names = [str(column) for column in frame.columns]
    if len(set(names)) < len(names):
        raise ValueError(f"Expected 'scores' to have columns of different names (got {names}).")
    columns, cells = [str(frame.index.name or "")], [map(str, frame.index)]
    for place, name in enumerate(names):
        values, spread = frame.iloc[:, place], f"{name.removesuffix('_mean')}_std"
        if name.endswith("_std") and f"{name.removesuffix('_std')}_mean" in names:
            continue
        if name.endswith("_mean") and spread in names:
            name = name.removesuffix("_mean")
            values = zip(values, frame.iloc[:, names.index(spread)], strict=True)
        columns.append(name)
        cells.append(map(_text, values))
    return Table(columns, [list(row) for row in zip(*cells, strict=True)])


def settings_table(settings: Any) -> Table | None:
    """A row for each setting."""
    if settings is None:
        return None
    if not isinstance(settings, Mapping):
        raise TypeError(f"Expected 'settings' to be a mapping (got {type(settings).__name__}).")
    return Table(["setting", "value"], [[str(name), str(each)] for name, each in settings.items()])


def version_table() -> Table:
    """The versions of Python and of what is installed of the packages that matter."""
    found = {"python": platform.python_version(), **{each: version_of(each) for each in PACKAGES}}
    rows = [[name, version] for name, version in found.items() if version is not None]
    return Table(["package", "version"], rows)


def _text(value: Any) -> str:
    if isinstance(value, tuple) and len(value) == 2:
        mean, spread = map(_number, value)
        return f"{mean} ±\N{NO-BREAK SPACE}{spread}" if mean and spread else mean
    return _number(value)


def _number(value: Any) -> str:
    """Three decimals, or three digits of large numbers; nothing where a score is missing."""
    if value is None or type(value).__name__ == "NAType":  # as pandas has it, if it is there
        return ""
    if isinstance(value, Integral) or not isinstance(value, Real):
        return str(value)
    number = float(value)
    if number != number:
        return ""
    return f"{number:.3f}" if abs(number) < 10 else f"{number:.3g}"
