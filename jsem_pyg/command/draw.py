"""Draw the map of the clusters by :mod:`jsem_pyg.report`."""

from pathlib import Path

import torch
from torch_geometric.data import Data

from .._table_files import as_text
from .columns import holds_lists
from .result import MapResult, MapSettings, Scores

_LONGEST = 1_000  # characters of a document that the map holds
_MOST_CELLS = 50  # of a row


def draw_map(result: MapResult, scores: Scores | None, settings: MapSettings, path: Path) -> None:
    """Write the page."""
    from ..report import report

    data = Data(x=torch.from_numpy(result.x))
    label_names = None
    if result.labels is not None:
        labels = torch.from_numpy(result.labels.codes[result.content.first_row])
        label_names = [*result.labels.classes, "(no label)"]
        data.y = torch.where(labels < 0, len(result.labels.classes), labels)
    names = [
        [name if name == f"cluster {i}" else f"{i}: {name}" for i, name in enumerate(level)]
        for level in result.level_names
    ]
    report(
        data,
        result.clusterer,
        path,
        text=_texts(result),
        counts=result.content.sizes.tolist(),
        cluster_names=names[0],
        label_names=label_names,
        level_names=names[1:],
        scores=None if scores is None else scores.methods,
        settings={"command": settings.command, "file": settings.file.name},
        title=settings.file.name,
        layout=settings.layout,
        random_state=settings.seed,
    )


def _texts(result: MapResult) -> list[str]:
    """Say which rows each point has, and show the beginning of its document, or else its cells."""
    said = []
    texts = result.content.texts or _cells(result)
    for row, size, text in zip(result.content.first_row, result.content.sizes, texts, strict=True):
        rows = f"row {row}" if size == 1 else f"row {row} and {size - 1} like it"
        cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ..."
        said.append(f"{rows}: {cut}" if text else rows)
    return said


def _cells(result: MapResult) -> list[str]:
    """List the cells of each point's row with their columns, except vectors and what is missing."""
    table = result.file.iloc[result.content.first_row]
    names = [name for name in table.columns if not holds_lists(table[name])]
    if not names:
        return [""] * len(table)
    rest, names = " ..." if len(names) > _MOST_CELLS else "", names[:_MOST_CELLS]
    return [
        ", ".join(f"{name} {cell}" for name, cell in zip(names, row, strict=True) if cell) + rest
        for row in zip(*(as_text(table[name]) for name in names), strict=True)
    ]
