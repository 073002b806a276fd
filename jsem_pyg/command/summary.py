"""Write report.md: the result of a map, in words and tables."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..report.page import score_table, version_table
from .folder import MapFolder
from .result import MapResult, Scores
from .steps import Steps, counted

_TYPICAL = 3  # documents shown of each cluster
_LONGEST = 160  # characters shown of each
_WIDEST = 20  # clusters or classes that a table has columns for


def summarize(
    result: MapResult,
    scores: Scores | None,
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
    if scores is not None and result.labels is not None:
        parts += ["## Compared with the labels", _scores(scores, result.labels.classes)]
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


def _scores(scores: Scores, classes: list[str]) -> str:
    table = score_table(scores.methods)
    assert table is not None
    parts = [
        _table(*table),
        f"Over the {scores.table.sum():,} rows that have a label, one of "
        f"{counted(len(classes), 'class', 'classes')}, which took no part in the clustering. ARI "
        "(adjusted Rand index) and NMI (normalised mutual information) are 1 for the same groups "
        "and about 0 for random ones; accuracy is of each class matched to one cluster. All three "
        "suffer where there are more clusters than classes, or fewer, even if every cluster is "
        "pure.",
    ]
    clusters = scores.table.shape[1]
    if max(len(classes), clusters) <= _WIDEST:
        heads = ("rows of the class", *(f"in {cluster}" for cluster in range(clusters)))
        rows = zip(map(_plain, classes), scores.table, strict=True)
        parts.append(_table(heads, [(name, *row) for name, row in rows]))
    return "\n\n".join(parts)


def _settings(result: MapResult, command: str, seconds: dict[str, float]) -> str:
    versions = ", ".join(map(" ".join, version_table().rows))
    times = ", ".join(f"{name} {took:.1f}" for name, took in seconds.items())
    clusterer, (points, dimensions) = result.clusterer, result.x.shape
    lines = [
        f"Points: {points:,} of {dimensions} dimensions; neighbours of each: "
        f"{clusterer.n_neighbors_}, by {clusterer.metric_}; edges: "
        f"{clusterer.edge_index_.shape[1] // 2:,}; seed: {clusterer.random_state}.",
        f"Seconds: {times}.",
        f"Versions: {versions}.",
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
