"""Make a map: embed what was read, cluster, name, score, draw and write."""

import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .._files import content_hash, write_whole
from ..datasets.embedder import Embedder
from ..datasets.text import check_installed
from ..datasets.word_features import WordFeatures
from ..estimators.columns import name_by_columns, spread
from ..estimators.neighbor_estimator import limit_threads
from .content import Content
from .draw import draw_map
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
    kind, content = source.choice.kind, source.content
    if kind == "texts":
        check_installed(embedder.model)
    folder.start(_depends(source, settings, embedder), resume)
    scale = choose_scale(content, kind, settings.scale)
    if kind == "texts":
        x = _embedded(content.texts or [], settings.words, embedder, folder, steps)
    else:
        assert content.vectors is not None
        x = content.vectors if scale is None else content.vectors / scale
    with limit_threads(None, len(x)):
        clusterer = _fitted(x, settings, source, folder, steps)
        with steps.step("naming"):
            names = [
                _names(content, x, level.labels, level.n_clusters)
                for level in clusterer.tree_.levels
            ]
        result = MapResult(content, x, clusterer, names, source.labels, None, source.table)
        if settings.clusters == "auto":
            _show_levels(result, steps)
        _write(_scored(result, steps), settings, folder, steps)
    folder.finish(
        {
            "names": result.names,
            "seconds": {name: round(took, 2) for name, took in steps.seconds.items()},
            "encoding": content.encoding._asdict(),
            "scale": None if scale is None else scale.tolist(),
        }
    )


def choose_scale(content: Content, kind: str, scale: str) -> np.ndarray | None:
    """Choose what the columns [D] of numbers are divided by, or None; categories stay ones."""
    if content.vectors is None or scale == "none" or (scale == "auto" and kind == "vectors"):
        return None
    divisors = spread(content.vectors, robust=scale != "standard")
    return np.where(content.is_category, 1.0, divisors)


def _depends(source: Source, settings: MapSettings, embedder: Embedder) -> dict[str, Any]:
    """List everything that the files of a map depend on, except packages."""
    choice, is_text = source.choice, source.choice.kind == "texts"
    depends = {
        **settings._asdict(),
        **asdict(settings.reading),
        "file": settings.file.name,
        "hash of the file": content_hash(settings.file),
        "columns": [column.name for column in choice.points],
        "kind": choice.kind,
        "types": {column.name: column.type for column in choice.points},
        "texts": [column.name for column in choice.texts],
        "model": embedder.model,
        "state of the model": embedder.fingerprint if is_text else None,
        "words": settings.words if is_text else None,
    }
    return {name: value for name, value in depends.items() if name not in ("reading", "command")}


def _embedded(
    texts: list[str], weight: float, embedder: Embedder, folder: MapFolder, steps: Steps
) -> np.ndarray:
    """Embed the documents [P, D], with word features beside, and keep them for `predict`."""
    with steps.step("embedding", len(texts)) as advance:
        x = embedder.embed(texts, advance)
    words = None
    if weight > 0:
        words = WordFeatures(weight).fit(texts)
        x = words.beside(x, texts)
    folder.save_points(x, texts, words)
    return x.numpy()


def _fitted(
    x: np.ndarray, settings: MapSettings, source: Source, folder: MapFolder, steps: Steps
) -> "DiffusionClusterer":
    """Cluster the points, unless the run that is resumed has done so."""
    from ..estimators import DiffusionClusterer

    metric, is_table = settings.metric, source.choice.kind == "table"
    metric = ("l2" if is_table else "cosine") if metric == "auto" else metric
    if is_table:
        compared = {"l2": "Euclidean distance", "cosine": "the cosine"}[metric]
        scaled = _SCALED[settings.scale]
        steps.note(f"Rows are compared by {compared} (--metric), {scaled} (--scale).")
        if source.content.is_category.any():
            steps.note("Each category is a column of zeros and ones.")
    if folder.clusterer.exists():  # written whole, by the run that goes on
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
        clusterer.save(folder.clusterer)
    return clusterer


def _names(content: Content, x: np.ndarray, labels: np.ndarray, count: int) -> list[str]:
    """Name the clusters of a level."""
    if content.texts is not None:
        return name_clusters(content.texts, labels, count)
    if content.names:
        return name_by_columns(x, labels, content.names, content.is_category)
    return [f"cluster {cluster}" for cluster in range(count)]


def _show_levels(result: MapResult, steps: Steps) -> None:
    """Print what "auto" offers."""
    for place, (level, names) in enumerate(result.levels):
        use = "taken" if place == 0 else f"--clusters {level.n_clusters}"
        steps.note(
            f"{counted(level.n_clusters, 'cluster')} ({use}; persist over {level.persistence:.0%} "
            f"of the scales): {' | '.join(names)}"
        )


def _scored(result: MapResult, steps: Steps) -> MapResult:
    """Add the scores, if there are labels."""
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


def _write(result: MapResult, settings: MapSettings, folder: MapFolder, steps: Steps) -> None:
    """Write the files for people."""
    if settings.layout != "none":
        with steps.step("drawing"):
            shown = {"command": shlex.join(settings.command), "file": settings.file.name}
            draw_map(result, folder.map, settings.file.name, settings.layout, settings.seed, shown)
    write_csv(folder.clusters, result.table())
    if result.content.missing:
        missing = pd.DataFrame(result.content.missing.items(), columns=["row", "missing"])
        write_csv(folder.left_out, missing)
    written = summarize(result, settings.file.name, settings.command, steps, folder)
    write_whole(folder.report, lambda file: file.write(written.encode()))
