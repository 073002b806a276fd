"""Write the pages of a map: report.md, in words and tables, and map.html by `jsem_pyg.report`."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch_geometric.data import Data

from .._table_files import as_text
from ..report.page import score_table, version_table
from .columns import holds_lists
from .folder import MapFolder
from .result import MapResult
from .steps import Steps, counted

_TYPICAL = 3  # documents shown of each cluster
_LONGEST = 160  # characters shown of each
_ON_MAP = 1_000  # characters of a document that the map holds
_MOST_CELLS = 50  # of a row
_ABOUT_SCORES = (
    "Over the rows that have a label, which took no part in the clustering. ARI (adjusted Rand "
    "index) and NMI (normalised mutual information) are 1 for the same groups and about 0 for "
    "random ones; accuracy is of each class matched to one cluster. All three suffer where there "
    "are more clusters than classes, or fewer, even if every cluster is pure."
)


def summarize(
    result: MapResult,
    scores: Mapping[str, Any] | None,
    title: str,
    command: str,
    steps: Steps,
    folder: MapFolder,
) -> str:
    """Write the report as Markdown; `command` is what was typed."""
    by_size = np.argsort(-result.sizes, kind="stable").tolist()
    parts = [f"# Clusters of {_plain(title)}", _first_words(result, folder)]
    parts += ["## Clusters", _clusters(result, by_size)]
    if result.content.texts is not None:
        parts.append("## Typical documents")
        for cluster in by_size:
            typical = _list(map(_plain, result.typical(cluster, _TYPICAL)))
            parts.append(f"**{cluster}: {_plain(result.names[cluster])}**\n\n{typical}")
    if table := score_table(scores):
        parts += ["## Compared with the labels", f"{_table(*table)}\n\n{_ABOUT_SCORES}"]
    parts += ["## Notes", _list(map(_plain, steps.notes))]
    parts += ["## To do it again", _settings(result, command, steps.seconds)]
    return "\n\n".join(parts) + "\n"


def _first_words(result: MapResult, folder: MapFolder) -> str:
    rows = len(result.content.point)
    words = [f"{counted(rows, 'row')} in {counted(len(result.names), 'cluster')}."]
    if result.clusterer.n_clusters == "auto":
        words.append("Where you know the number, pass `--clusters`.")
    if folder.map.exists():
        words.append(f"[{folder.map.name}]({folder.map.name}) draws them.")
    words.append(
        f"[{folder.clusters.name}]({folder.clusters.name}) has the cluster of every row, counted "
        "from 0. `jsem-pyg predict` assigns new rows."
    )
    return " ".join(words)


def _clusters(result: MapResult, by_size: list[int]) -> str:
    sizes, labels = result.sizes, result.row_clusters
    sure = result.clusterer.probabilities_.max(1)[result.content.point]
    rows = [
        (
            cluster,
            _plain(result.names[cluster]),
            f"{sizes[cluster]:,}",
            f"{sizes[cluster] / sizes.sum():.1%}",
            f"{sure[labels == cluster].mean():.2f}",
        )
        for cluster in by_size
    ]
    table = _table(("cluster", "name", "rows", "share", "certainty"), rows)
    return (
        f"{table}\n\nNames say what sets a cluster apart from the others. Certainty is the mean "
        "probability that a row of the cluster belongs to it; `clusters.csv` has the probability "
        "of every row."
    )


def _settings(result: MapResult, command: str, seconds: dict[str, float]) -> str:
    times = ", ".join(f"{name} {took:.1f}" for name, took in seconds.items())
    clusterer, (points, dimensions) = result.clusterer, result.x.shape
    lines = [
        f"Points: {points:,} of {dimensions} dimensions; edges: "
        f"{clusterer.edge_index_.shape[1] // 2:,}. Seconds: {times}.",
        f"Versions: {', '.join(map(' '.join, version_table().rows))}.",
    ]
    return f"```\n{command}\n```\n\n{_list(lines)}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _plain(text: str) -> str:
    """Put text on one line, cut, of which Markdown makes nothing else."""
    line = " ".join(text.split())
    line = line if len(line) <= _LONGEST else line[:_LONGEST].rsplit(" ", 1)[0] + " ..."
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
