"""report.md: the result of a map, in words and tables."""

import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..report.tables import score_table, version_table
from .folder import MapFolder
from .result import MapResult
from .steps import Steps, counted

_TYPICAL = 3  # documents shown of each cluster
_LONGEST = 160  # characters shown of each
_WIDEST = 20  # clusters or classes that a table has columns for


def summarize(
    result: MapResult, title: str, command: Sequence[str], steps: Steps, folder: MapFolder
) -> str:
    """The report, as Markdown; `command` is what was typed."""
    parts = [
        f"# Clusters of {_plain(title)}",
        _first_words(result, folder),
        "## Clusters",
        _clusters(result),
        *_levels(result),
        *_documents(result),
        *_scores(result),
        "## Notes",
        _list(map(_plain, steps.notes)),
        "## Files",
        _files(folder),
        "## To do it again",
        _settings(result, command, steps.seconds),
    ]
    return "\n\n".join(parts) + "\n"


def _first_words(result: MapResult, folder: MapFolder) -> str:
    count, clusters = len(result.content.point), len(result.names)
    if result.clusterer.n_clusters == "auto":
        chosen = (
            "the number of clusters that lie apart, or else whose clusters heat leaves least and a "
            "classifier without edges predicts best. Where you know the number, pass `--clusters`"
        )
    else:
        chosen = "as many as was asked for"
    drawn = f"[{folder.map.name}]({folder.map.name}) draws them, " if folder.map.exists() else ""
    return (
        f"{counted(count, 'row')}, in {counted(clusters, 'cluster')} ({chosen}). {_alike(result)}"
        f"Rows with similar content are in one cluster; no label was used. {drawn}"
        f"[{folder.clusters.name}]({folder.clusters.name}) lists them."
    )


def _alike(result: MapResult) -> str:
    """Why there are fewer points than rows, where that is so."""
    rows, points, empty = len(result.content.point), len(result.x), len(result.content.missing)
    repeated = rows - empty - points
    parts = [
        f"{counted(empty, 'row is', 'rows are')} left out, since something is missing in them "
        "(`left_out.csv`). " * bool(empty),
        f"They hold {points:,} different documents, each of them one point of the map, whose size "
        f"shows its rows: {counted(repeated, 'row repeats', 'rows repeat')} one before. "
        * bool(repeated),
    ]
    return "".join(parts)


def _clusters(result: MapResult) -> str:
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
        for cluster in _by_size(result)
    ]
    table = _table(("cluster", "name", "rows", "share", "certainty"), rows)
    named = (
        "Names are the words that set a cluster apart from the others. "
        if result.content.texts is not None
        else ""
    )
    return (
        f"{table}\n\n{named}Certainty is the mean probability that a row of the cluster belongs to "
        "it; `clusters.csv` has that of every row."
    )


def _levels(result: MapResult) -> Iterable[str]:
    """Other numbers of clusters."""
    if len(result.levels) < 2:
        return
    yield "## Levels"
    yield (
        "How many clusters there are depends on the scale; these numbers persist over the given "
        "share of all diffusion times. The first is taken; the option asks for another."
    )
    yield _table(
        ("clusters", "option", "share of the scales", "names"),
        [
            (
                level.n_clusters,
                f"`--clusters {level.n_clusters}`",
                f"{level.persistence:.0%}",
                _plain(" | ".join(names)),
            )
            for level, names in result.levels
        ],
    )


def _documents(result: MapResult) -> Iterable[str]:
    if result.content.texts is None:
        return
    yield "## Typical documents"
    for cluster in _by_size(result):
        typical = map(_plain, result.typical(cluster, _TYPICAL))
        yield f"**{cluster}: {_plain(result.names[cluster])}**\n\n{_list(typical)}"


def _scores(result: MapResult) -> Iterable[str]:
    scores, labels = result.scores, result.labels
    if scores is None or labels is None:
        return
    table = score_table(scores.methods())
    assert table is not None
    yield "## Compared with the labels"
    yield _table(*table)
    yield (
        f"Over the {scores.labelled:,} rows that have a label, one of "
        f"{counted(len(labels.classes), 'class', 'classes')}, which took no part in the "
        "clustering. ARI (adjusted Rand index) and NMI (normalised mutual information) are 1 for "
        "the same groups and about 0 for random ones; "
        "accuracy is of each class matched to one cluster. All three suffer where there are more "
        "clusters than classes, or fewer, even if every cluster is pure."
    )
    if len(labels.classes) <= _WIDEST and len(result.names) <= _WIDEST:
        heads = ("rows of the class", *(f"in {cluster}" for cluster in range(len(result.names))))
        rows = zip(map(_plain, labels.classes), scores.table, strict=True)
        yield _table(heads, [(name, *row) for name, row in rows])


def _files(folder: MapFolder) -> str:
    described = {
        folder.map: "the map, for a browser; it needs no network",
        folder.clusters: "a row for each row of the file, counted from 0: its cluster (empty: left "
        "out), the name of that, the probability, and the columns of the file",
        folder.left_out: "the numbers of the rows that are left out, and what they lack",
        folder.clusterer: "the fitted estimator, `jsem_pyg.estimators.DiffusionClusterer.load`",
        folder.points: "embeddings and documents, which `jsem-pyg predict` looks at",
        folder.path / "run.json": "settings, versions, names",
    }
    return _list(f"`{path.name}`: {what}" for path, what in described.items() if path.exists())


def _settings(result: MapResult, command: Sequence[str], seconds: dict[str, float]) -> str:
    versions = ", ".join(map(" ".join, version_table().rows))
    times = ", ".join(f"{name} {took:.1f}" for name, took in seconds.items())
    clusterer = result.clusterer
    return (
        f"```\n{shlex.join(command)}\n```\n\n"
        + _list(
            [
                f"Points: {result.x.shape[0]:,} of {result.x.shape[1]} dimensions; neighbours of "
                f"each: {clusterer.n_neighbors_}, by {clusterer.metric_}; edges: "
                f"{clusterer.edge_index_.shape[1] // 2:,}; seed: {clusterer.random_state}.",
                f"Seconds: {times}.",
                f"Versions: {versions}.",
            ]
        )
        + "\n\nNew rows are assigned to these clusters by `jsem-pyg predict`."
    )


def _by_size(result: MapResult) -> list[int]:
    return np.argsort(-result.sizes, kind="stable").tolist()


def _table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)


def _plain(text: str) -> str:
    """Text on one line, cut, of which Markdown makes nothing else."""
    line = " ".join(text.split())
    line = line if len(line) <= _LONGEST else line[:_LONGEST].rsplit(" ", 1)[0] + " ..."
    return re.sub(r"([\\`*_{}\[\]<>#|~$])", r"\\\1", line)
