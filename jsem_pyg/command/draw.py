"""The map of the clusters, which :mod:`jsem_pyg.report` draws."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from .columns import kind_of
from .content import as_written
from .options import LAYOUTS
from .result import MapResult

_NEEDS = {"plotly": LAYOUTS[:2], "umap": LAYOUTS[:1]}  # modules, and the layouts that take them
_LONGEST = 1_000  # characters of a document that the map holds
_MOST_CELLS = 50  # of a row


def check_drawable(layout: str) -> None:
    """Raise an ImportError unless a map can be drawn; called before any work."""
    for module, layouts in _NEEDS.items():
        if layout in layouts and find_spec(module) is None:
            raise ImportError(
                f"Drawing map.html with --layout {layout} needs the package that has the module "
                f"'{module}'. To install it: pip install \"jsem_pyg[command]\"; to do without the "
                "map: --layout none"
            )


def draw_map(
    result: MapResult, path: Path, title: str, layout: str, seed: int, settings: Mapping[str, Any]
) -> None:
    """Write the page, unless no layout is asked for."""
    if layout == "none":
        return
    from ..report import report

    data = Data(x=torch.from_numpy(result.x))
    label_names = None
    if result.labels is not None:
        labels = torch.from_numpy(result.labels.codes[result.content.first_row])
        label_names = list(result.labels.classes)
        if bool((labels < 0).any()):  # a group of their own
            labels[labels < 0] = len(label_names)
            label_names.append("(no label)")
        data.y = labels
    names = [[_numbered(i, name) for i, name in enumerate(level)] for level in result.level_names]
    report(
        data,
        result.clusterer,
        path,
        text=_texts(result),
        cluster_names=names[0],
        label_names=label_names,
        level_names=names[1:],
        scores=None if result.scores is None else result.scores.methods(),
        settings=settings,
        title=title,
        layout=layout,
        random_state=seed,
    )


def _numbered(cluster: int, name: str) -> str:
    return name if name == f"cluster {cluster}" else f"{cluster}: {name}"


def _texts(result: MapResult) -> list[str]:
    """Text shown at each point: its rows, and the beginning of its document, or else its cells."""
    point = result.content.point
    repeats = np.bincount(point[point >= 0]) - 1
    texts = result.content.texts or _cells(result)
    return [
        f"row {row}{f' and {more} like it' if more else ''}{': ' if text else ''}{_cut(text)}"
        for row, more, text in zip(result.content.first_row, repeats, texts, strict=True)
    ]


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def _cells(result: MapResult) -> list[str]:
    """The names of columns with what each row has there, except vectors and what is missing."""
    import pandas as pd

    table = result.file.iloc[result.content.first_row]
    names = [name for name in table.columns if kind_of(table[name]) != "vectors"]
    table, rest = table[names[:_MOST_CELLS]], " ..." if len(names) > _MOST_CELLS else ""
    known = table.notna().to_numpy()
    table = pd.DataFrame({name: as_written(table[name]) for name in table}, table.index)
    rows = zip(table.astype(object).to_numpy(), known, strict=True)
    return [
        ", ".join(
            f"{name} {cell}" for name, cell, is_known in zip(table, *row, strict=True) if is_known
        )
        + rest
        for row in rows
    ]
