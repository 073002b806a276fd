"""The steps of `jsem-pyg map`: read, embed, cluster, name, score, draw, write."""

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._files import write_whole
from .._table_files import Reading, read_rows
from ..datasets.base import content_hash
from ..datasets.text import check_installed
from ..datasets.word_features import WordFeatures
from ..estimators.columns import name_by_columns
from ..estimators.neighbor_estimator import limit_threads
from .columns import Choice, choose_columns
from .content import Content, read_content, read_labels
from .draw import draw_map
from .embedding import Embedder
from .folder import MapFolder
from .naming import name_clusters
from .result import EMPTY, MapResult, as_csv, option_of
from .scores import score
from .steps import Steps, counted
from .summary import summarize

if TYPE_CHECKING:
    from ..estimators import DiffusionClusterer

_SCALED = {
    "robust": "each column divided by its interquartile range",
    "standard": "each column divided by its standard deviation",
    "none": "columns as they are",
}


class MapSettings(NamedTuple):
    """The file, and all options of `jsem-pyg map`."""

    file: Path
    reading: Reading
    command: Sequence[str]  # what was typed
    columns: Sequence[str]
    texts: Sequence[str]
    labels: str | None
    clusters: int | str
    neighbors: int
    metric: str
    scale: str
    words: float
    layout: str
    seed: int


def make_map(
    settings: MapSettings, folder: MapFolder, embedder: Embedder, resume: bool, steps: Steps
) -> None:
    """Write the map of a file to a folder."""
    with steps.step("reading"):
        table = read_rows(settings.file, settings.reading)
        choice = choose_columns(table, settings.columns, settings.texts, settings.labels)
        content = read_content(table, choice)
        labels = None if settings.labels is None else read_labels(table, settings.labels)
    _show_reading(choice, content, steps)
    if isinstance(settings.clusters, int) and settings.clusters > content.point.max() + 1:
        raise ValueError(
            "Expected at most as many --clusters as there are rows that differ (got "
            f"{settings.clusters} for {content.point.max() + 1})."
        )
    if choice.kind == "texts":
        check_installed(embedder.model)
    folder.start(_depends(settings, choice, embedder), resume)
    x = _points(content, settings.words, embedder, folder, steps)
    with limit_threads(None, len(x)):
        clusterer = _fitted(x, settings, choice, folder, steps)
        names = _names(content, x, choice, clusterer, steps)
        result = MapResult(content, x, clusterer, names, labels, None, table)
        if settings.clusters == "auto":
            _show_levels(result, steps)
        _write(_scores(result, steps), settings, folder, steps)


def _show_reading(choice: Choice, content: Content, steps: Steps) -> None:
    """Print what was read, and what was guessed."""
    listed = ", ".join(choice.points)
    what = "text" if choice.kind == "texts" else choice.kind
    guess = " (guessed; --column says otherwise)" if choice.guessed else ""
    rows = counted(len(content.point), "row")
    steps.note(f"{rows}; clustered is {what} of: {listed}{guess}.")
    if choice.kind != "texts" and choice.texts:
        steps.note(f"Clusters are named by text of: {', '.join(choice.texts)}.")
    empty = int((content.point < 0).sum())
    if empty:
        rows = counted(empty, "row is empty: it is", "rows are empty: they are")
        steps.note(f"{rows} in no cluster ({EMPTY} in clusters.csv).")
    if choice.kind == "texts" and content.texts is not None:
        again = len(content.point) - empty - len(content.texts)
        if again:
            rows = counted(again, "row holds", "rows hold")
            have = "has" if again == 1 else "have"
            steps.note(f"{rows} the same as one before, and {have} its cluster.")


def _depends(settings: MapSettings, choice: Choice, embedder: Embedder) -> dict[str, Any]:
    """Everything that the files of a map depend on, except packages."""
    is_text = choice.kind == "texts"
    depends = {
        **settings._asdict(),
        **asdict(settings.reading),
        "file": settings.file.name,
        "hash of the file": content_hash(settings.file),
        "columns": choice.points,
        "kind": choice.kind,
        "texts": choice.texts,
        "model": embedder.model,
        "state of the model": embedder.fingerprint if is_text else None,
        "words": settings.words if is_text else None,
    }
    return {name: value for name, value in depends.items() if name not in ("reading", "command")}


def _points(
    content: Content, weight: float, embedder: Embedder, folder: MapFolder, steps: Steps
) -> np.ndarray:
    """The points [P, D] that are clustered."""
    if content.vectors is not None:
        return content.vectors
    texts = content.texts
    assert texts is not None
    if folder.has(folder.points):
        steps.say("embedding: done before")
        known: np.ndarray = folder.read_points()["x"].numpy()
        return known
    with steps.counted_step("embedding", len(texts)) as advance:
        x = embedder.embed(texts, advance)
    words = None
    if weight > 0:
        words = WordFeatures(weight).fit(texts)
        x = words.beside(x, texts)
    folder.save_points(x, texts, words)
    return x.numpy()


def _fitted(
    x: np.ndarray, settings: MapSettings, choice: Choice, folder: MapFolder, steps: Steps
) -> "DiffusionClusterer":
    from ..estimators import DiffusionClusterer

    metric, scale = settings.metric, settings.scale
    is_table = choice.kind == "numbers"
    metric = ("l2" if is_table else "cosine") if metric == "auto" else metric
    if scale == "auto":
        scale = "robust" if is_table else "none"
    if is_table:
        compared = {"l2": "Euclidean distance", "cosine": "the cosine"}[metric]
        steps.note(f"Rows are compared by {compared} (--metric), {_SCALED[scale]} (--scale).")
    if folder.has(folder.clusterer):
        steps.say("clustering: done before")
        for note in folder.notes(folder.clusterer):
            steps.note(note)
        return folder.read_clusterer()
    said = len(steps.notes)
    with steps.step("clustering"):
        clusterer = DiffusionClusterer(
            settings.clusters,  # type: ignore[arg-type]  # an int or "auto"
            n_neighbors=settings.neighbors,
            metric=metric,
            scale=None if scale == "none" else scale,
            random_state=settings.seed,
        ).fit(x)
        folder.save_clusterer(clusterer, steps.notes[said:])
    return clusterer


def _names(
    content: Content, x: np.ndarray, choice: Choice, clusterer: "DiffusionClusterer", steps: Steps
) -> list[list[str]]:
    """A name for each cluster of each level."""

    def name(labels: np.ndarray, count: int) -> list[str]:
        if content.texts is not None:
            return name_clusters(content.texts, labels, count)
        if choice.kind == "numbers":
            return name_by_columns(x, labels, choice.points)
        return [f"cluster {cluster}" for cluster in range(count)]

    with steps.step("naming"):
        return [name(level.labels, level.n_clusters) for level in clusterer.tree_.levels]


def _show_levels(result: MapResult, steps: Steps) -> None:
    """Print what "auto" offers."""
    for place, (level, names) in enumerate(result.levels):
        use = "taken" if place == 0 else option_of(level)
        steps.note(
            f"{counted(level.n_clusters, 'cluster')} ({use}; persist over {level.persistence:.0%} "
            f"of the scales): {' | '.join(names)}"
        )


def _scores(result: MapResult, steps: Steps) -> MapResult:
    if result.labels is None:
        return result
    missing = int((result.labels.codes < 0).sum())
    if missing:
        rows = counted(missing, "row has no label: it is", "rows have no label: they are")
        steps.note(f"{rows} not in the scores.")
    with steps.step("scoring"):
        x = result.compared[result.content.point]
        count, by_angle = len(result.names), result.clusterer.metric_ == "cosine"
        scores = score(x, result.row_clusters, result.labels, count, normalize=by_angle)
    if scores is None:
        steps.note("Too few rows have a label for scores.")
    return result._replace(scores=scores)


def _write(result: MapResult, settings: MapSettings, folder: MapFolder, steps: Steps) -> None:
    """Write the files for people; the note that all is done comes last."""
    if not folder.has(folder.map):
        with steps.step("drawing"):
            shown = {"command": shlex.join(settings.command), "file": settings.file.name}
            draw_map(result, folder.map, settings.file.name, settings.layout, settings.seed, shown)
        if folder.map.exists():  # not with --layout none
            folder.keep(folder.map)
    table = as_csv(result.table())
    write_whole(folder.clusters, lambda file: file.write(table.encode()))
    written = summarize(result, settings.file.name, settings.command, steps, folder)
    write_whole(folder.report, lambda file: file.write(written.encode()))
    seconds = {name: round(took, 2) for name, took in steps.seconds.items()}
    folder.finish({"names": result.names, "seconds": seconds})
