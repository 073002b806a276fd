"""The steps of `jsem-pyg map`: read, embed, cluster, name, score, draw, write."""

import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .._files import content_hash, write_whole
from ..datasets.text import check_installed
from ..datasets.word_features import WordFeatures
from ..estimators.columns import name_by_columns, spread
from ..estimators.neighbor_estimator import limit_threads
from .columns import Choice
from .content import Content
from .draw import draw_map
from .embedding import Embedder
from .folder import MapFolder
from .naming import name_clusters
from .result import MapResult, write_csv
from .scores import score
from .source import MapSettings, Source
from .steps import Steps, counted
from .summary import summarize

if TYPE_CHECKING:
    from ..estimators import DiffusionClusterer

_SCALED = {
    "auto": "each column divided by its interquartile range",
    "robust": "each column divided by its interquartile range",
    "standard": "each column divided by its standard deviation",
    "none": "columns as they are",
}


def make_map(
    source: Source,
    settings: MapSettings,
    folder: MapFolder,
    embedder: Embedder,
    resume: bool,
    steps: Steps,
) -> None:
    """Write the map of a file to a folder."""
    choice, content = source.choice, source.content
    if choice.kind == "texts":
        check_installed(embedder.model)
    folder.start(_depends(settings, choice, embedder), resume)
    scale = choose_scale(content, choice.kind, settings.scale)
    x = _points(content, scale, settings.words, embedder, folder, steps)
    with limit_threads(None, len(x)):
        clusterer = _fitted(x, settings, choice, folder, steps)
        names = _names(content, x, clusterer, steps)
        result = MapResult(content, x, clusterer, names, source.labels, None, source.table)
        if settings.clusters == "auto":
            _show_levels(result, steps)
        _write(_scores(result, steps), scale, settings, folder, steps)


def choose_scale(content: Content, kind: str, scale: str) -> np.ndarray | None:
    """What the columns [D] of numbers are divided by, or None; ones of categories stay ones."""
    if content.vectors is None or scale == "none" or (scale == "auto" and kind == "vectors"):
        return None
    divisors = spread(content.vectors, robust=scale != "standard")
    return np.where(content.is_category, 1.0, divisors)


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
        "types": choice.types,
        "texts": choice.texts,
        "model": embedder.model,
        "state of the model": embedder.fingerprint if is_text else None,
        "words": settings.words if is_text else None,
    }
    return {name: value for name, value in depends.items() if name not in ("reading", "command")}


def _points(
    content: Content,
    scale: np.ndarray | None,
    weight: float,
    embedder: Embedder,
    folder: MapFolder,
    steps: Steps,
) -> np.ndarray:
    """The points [P, D] that are clustered."""
    if content.vectors is not None:
        return content.vectors if scale is None else content.vectors / scale
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

    metric, is_table = settings.metric, choice.kind == "table"
    metric = ("l2" if is_table else "cosine") if metric == "auto" else metric
    if is_table:
        compared = {"l2": "Euclidean distance", "cosine": "the cosine"}[metric]
        one_hot = "category" in choice.types.values()
        steps.note(
            f"Rows are compared by {compared} (--metric), {_SCALED[settings.scale]} (--scale)"
            + one_hot * "; each category is a column of zeros and ones"
            + "."
        )
    if folder.has(folder.clusterer):
        steps.say("clustering: done before")
        return folder.read_clusterer()
    with steps.step("clustering"):
        clusterer = DiffusionClusterer(
            settings.clusters,  # type: ignore[arg-type]  # an int or "auto"
            n_neighbors=settings.neighbors,
            metric=metric,
            scale=None,
            random_state=settings.seed,
        ).fit(x)
        folder.save_clusterer(clusterer)
    return clusterer


def _names(
    content: Content, x: np.ndarray, clusterer: "DiffusionClusterer", steps: Steps
) -> list[list[str]]:
    """A name for each cluster of each level."""

    def name(labels: np.ndarray, count: int) -> list[str]:
        if content.texts is not None:
            return name_clusters(content.texts, labels, count)
        if content.names:
            return name_by_columns(x, labels, content.names, content.is_category)
        return [f"cluster {cluster}" for cluster in range(count)]

    with steps.step("naming"):
        return [name(level.labels, level.n_clusters) for level in clusterer.tree_.levels]


def _show_levels(result: MapResult, steps: Steps) -> None:
    """Print what "auto" offers."""
    for place, (level, names) in enumerate(result.levels):
        use = "taken" if place == 0 else f"--clusters {level.n_clusters}"
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
        x = result.x[result.content.point]
        count, by_angle = len(result.names), result.clusterer.metric_ == "cosine"
        scores = score(x, result.row_clusters, result.labels, count, normalize=by_angle)
    if scores is None:
        steps.note("Too few rows have a label for scores.")
    return result._replace(scores=scores)


def _write(
    result: MapResult,
    scale: np.ndarray | None,
    settings: MapSettings,
    folder: MapFolder,
    steps: Steps,
) -> None:
    """Write the files for people; the note that all is done comes last."""
    if not folder.has(folder.map):
        with steps.step("drawing"):
            shown = {"command": shlex.join(settings.command), "file": settings.file.name}
            draw_map(result, folder.map, settings.file.name, settings.layout, settings.seed, shown)
        if folder.map.exists():  # not with --layout none
            folder.keep(folder.map)
    write_csv(folder.clusters, result.table())
    if result.content.missing:
        missing = pd.DataFrame(result.content.missing.items(), columns=["row", "missing"])
        write_csv(folder.left_out, missing)
    written = summarize(result, settings.file.name, settings.command, steps, folder)
    write_whole(folder.report, lambda file: file.write(written.encode()))
    seconds = {name: round(took, 2) for name, took in steps.seconds.items()}
    encoding = result.content.encoding._asdict()
    encoding["scale"] = None if scale is None else scale.tolist()
    folder.finish({"names": result.names, "seconds": seconds, "encoding": encoding})
