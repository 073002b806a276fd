"""The map of the clusters, which :mod:`jsem_pyg.report` draws."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch_geometric.data import Data

from .columns import holds_lists
from .content import as_text
from .result import MapResult

_LONGEST = 1_000  # characters of a document that the map holds
_MOST_CELLS = 50  # of a row


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
        counts=result.content.sizes.tolist(),
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
    repeats = result.content.sizes - 1
    texts = result.content.texts or _cells(result)
    return [
        f"row {row}{f' and {more} like it' if more else ''}{': ' if text else ''}{_cut(text)}"
        for row, more, text in zip(result.content.first_row, repeats, texts, strict=True)
    ]


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."


def _cells(result: MapResult) -> list[str]:
    """The names of columns with what each row has there, except vectors and what is missing."""
    table = result.file.iloc[result.content.first_row]
    names = [name for name in table.columns if not holds_lists(table[name])]
    rest, names = " ..." if len(names) > _MOST_CELLS else "", names[:_MOST_CELLS]
    if not names:
        return [""] * len(table)
    return [
        ", ".join(f"{name} {cell}" for name, cell in zip(names, row, strict=True) if cell) + rest
        for row in zip(*(as_text(table[name]) for name in names), strict=True)
    ]
