"""Write the pages of a map: report.md, in words and tables, and map.html by `jsem_pyg.report`."""

import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jinja2 import Environment, StrictUndefined  # which comes with PyG
from torch_geometric.data import Data

from .._table_files import as_text
from ..report.page import score_table, version_table
from .columns import holds_lists
from .result import MapResult
from .steps import Steps, counted

_TYPICAL = 3  # documents shown of each cluster
_LONGEST = 160  # characters shown of each
_ON_MAP = 1_000  # characters of a document that the map holds
_MOST_CELLS = 50  # of a row


def summarize(
    result: MapResult,
    scores: Mapping[str, Any] | None,
    title: str,
    command: str,
    steps: Steps,
    is_drawn: bool,
) -> str:
    """Write the report as Markdown; `command` is what was typed."""
    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters["plain"] = _plain
    source = (files(__package__) / "report.md.jinja").read_text(encoding="utf-8")
    sizes, of_row = result.sizes, result.row_clusters
    sure = result.clusterer.probabilities_.max(1)[result.content.point]
    clusters = [
        {
            "number": cluster,
            "name": result.names[cluster],
            "rows": f"{sizes[cluster]:,}",
            "share": f"{sizes[cluster] / sizes.sum():.1%}",
            "certainty": f"{sure[of_row == cluster].mean():.2f}",
            "typical": result.typical(cluster, _TYPICAL),
        }
        for cluster in np.argsort(-sizes, kind="stable").tolist()
    ]
    return environment.from_string(source).render(
        title=title,
        count=counted,
        rows=len(of_row),
        clusters=clusters,
        is_guessed=result.clusterer.n_clusters == "auto",
        is_drawn=is_drawn,
        has_texts=result.content.texts is not None,
        scores=score_table(scores),
        notes=steps.notes,
        command=command,
        points=len(result.x),
        dimensions=result.x.shape[1],
        edges=result.clusterer.edge_index_.shape[1] // 2,
        seconds=", ".join(f"{name} {took:.1f}" for name, took in steps.seconds.items()),
        versions=", ".join(map(" ".join, version_table().rows)),
    )


def _plain(text: str, longest: int = _LONGEST) -> str:
    """Put text on one line, cut, of which Markdown makes nothing else."""
    line = " ".join(text.split())
    line = line if len(line) <= longest else line[:longest].rsplit(" ", 1)[0] + " ..."
    return re.sub(r"([\\`*_{}\[\]<>#|~$])", r"\\\1", line)


def draw_map(
    result: MapResult,
    scores: Mapping[str, Any] | None,
    path: Path,
    title: str,
    command: str,
    **options: Any,
) -> None:
    """Write the page; the options are those of `report`."""
    from ..report import report

    data = Data(x=torch.from_numpy(result.x))
    if result.labels is not None:
        labels = torch.from_numpy(result.labels[result.content.first_row])
        data.y = torch.where(labels < 0, len(result.classes), labels)
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
        label_names=[*result.classes, "(no label)"],
        level_names=names[1:],
        scores=scores,
        settings={"command": command, "file": title},
        title=title,
        **options,
    )


def _texts(result: MapResult) -> list[str]:
    """Say which rows each point has, and show the beginning of its document, or else its cells."""
    said = []
    texts = result.content.texts or _cells(result)
    for row, size, text in zip(result.content.first_row, result.content.sizes, texts, strict=True):
        rows = f"row {row}" if size == 1 else f"row {row} and {size - 1} like it"
        cut = text if len(text) <= _ON_MAP else f"{text[:_ON_MAP]} ..."
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
