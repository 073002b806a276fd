"""Make a map: read a file, embed it, cluster, name, score, draw and write."""

from collections import Counter

import numpy as np

from .._files import write_whole
from .._table_files import read_rows
from ..datasets.embedder import Embedder
from ..datasets.text import check_installed
from ..datasets.word_features import WordFeatures
from ..estimators import DiffusionClusterer
from ..estimators.columns import name_by_columns
from ..estimators.neighbor_estimator import limit_threads
from .columns import Choice, choose_columns
from .content import Content, read_documents, read_labels, read_vectors
from .folder import MapFolder
from .naming import name_clusters
from .pages import draw_map, summarize
from .result import MapResult, MapSettings, Scores, as_csv, assignments
from .steps import Steps, counted

_PLURALS = {"number": "numbers", "date": "dates", "category": "categories", "vector": "vectors"}
_COMPARED = {"l2": "Euclidean distance", "cosine": "the cosine"}
_SCALED = {
    "auto": "each column divided by its interquartile range",
    "robust": "each column divided by its interquartile range",
    "standard": "each column divided by its standard deviation",
    "none": "columns as they are",
}


def make_map(settings: MapSettings, folder: MapFolder, embedder: Embedder, steps: Steps) -> None:
    """Write the map of a file to a folder."""
    with steps.step("reading"):
        strings = [name for name, type in settings.types.items() if type != "number"]
        labels = settings.labels
        table = read_rows(settings.file, settings.reading, [*strings, *filter(None, [labels])])
        choice = choose_columns(table, settings.columns, labels, settings.types)
        if choice.kind == "texts":
            check_installed(embedder.model)
            content = read_documents(choice.points)
        else:
            content = read_vectors(choice.points, choice.texts, impute=settings.missing == "impute")
        classes = None if labels is None else read_labels(table[labels])
    _show_source(choice, content, steps)
    points = content.point.max() + 1
    if isinstance(settings.clusters, int) and settings.clusters > points:
        raise ValueError(
            "Expected at most as many --clusters as there are rows that differ (got "
            f"{settings.clusters} for {points})."
        )
    folder.clear()
    scale = content.divisors(settings.scale)
    words = WordFeatures(settings.words)
    if content.vectors is None:
        documents = content.texts or []
        with steps.step("embedding", len(documents)) as advance:
            embedded = embedder.embed(documents, advance)
        x = words.fit(documents).beside(embedded, documents).numpy()
    else:
        x = content.vectors if scale is None else content.vectors / scale
    with limit_threads(len(x)):
        clusterer = _fitted(x, choice.kind, settings, steps)
        clusterer.save(folder.clusterer)
        with steps.step("naming"):
            names = [_names(content, x, each.labels) for each in clusterer.tree_.levels]
        result = MapResult(content, x, clusterer, names, classes, table)
        if settings.clusters == "auto":
            _show_levels(result, steps)
        with steps.step("scoring"):
            scores = _scored(result, steps)
        _write(result, scores, settings, folder, steps)
    folder.finish(
        {
            "columns": [column.name for column in choice.points],
            "types": {column.name: column.type for column in choice.points},
            "kind": choice.kind,
            "decimal": settings.reading.decimal,
            "thousands": settings.reading.thousands,
            "encoding": content.encoding._asdict(),
            "scale": scale,
            "model": embedder.model,
            "state of the model": embedder.fingerprint if choice.kind == "texts" else None,
            "documents": content.texts if content.vectors is None else None,
            "words": settings.words,
            "state of the words": words.state() if content.vectors is None else None,
            "names": result.names,
        }
    )


def _show_source(choice: Choice, content: Content, steps: Steps) -> None:
    """Print what was read, guessed and left out."""
    listed: dict[str, list[str]] = {}
    for column in choice.points:
        listed.setdefault(_PLURALS.get(column.type, "text"), []).append(column.name)
    what = "; ".join(f"{kind} of: {', '.join(names)}" for kind, names in listed.items())
    guess = " (guessed; --column says otherwise)" if choice.guessed else ""
    steps.note(f"{counted(len(content.point), 'row')}; clustered is {what}{guess}.")
    if choice.left_out:
        reasons = (f"{name} ({why})" for name, why in choice.left_out.items())
        steps.note(f"Columns left out: {', '.join(reasons)}.")
    if "dates" in listed:
        steps.note("Dates are compared by the days between them.")
    if choice.texts:
        names = ", ".join(column.name for column in choice.texts)
        steps.note(f"Clusters are named by text of: {names}.")
    if content.missing:
        lacking = Counter(name for names in content.missing.values() for name in names.split(", "))
        fix = "" if choice.kind == "texts" else "; --missing impute takes the median in its place"
        steps.note(
            f"{counted(len(content.missing), 'row is', 'rows are')} left out, in no cluster. "
            f"Missing is {', '.join(f'{name} in {many:,}' for name, many in lacking.items())}{fix}."
        )
    if content.filled:
        filled = ", ".join(f"{count:,} of {name}" for name, count in content.filled.items())
        steps.note(f"Missing numbers are the median of their column (--missing): {filled}.")
    again = int(content.sizes.sum()) - len(content.sizes)
    if again:
        rows, have = counted(again, "row holds", "rows hold"), "has" if again == 1 else "have"
        steps.note(f"{rows} the same as one before, and {have} its cluster.")


def _fitted(x: np.ndarray, kind: str, settings: MapSettings, steps: Steps) -> DiffusionClusterer:
    """Cluster the points [P, D]."""
    metric = settings.metric
    if metric == "auto":
        metric = "l2" if kind == "table" else "cosine"
    if kind == "table":
        compared, scaled = _COMPARED[metric], _SCALED[settings.scale]
        steps.note(f"Rows are compared by {compared} (--metric), {scaled} (--scale).")
    with steps.step("clustering"):
        return DiffusionClusterer(
            settings.clusters,  # type: ignore[arg-type]  # an int or "auto"
            n_neighbors=settings.neighbors,
            metric=metric,
            scale=None,
            random_state=settings.seed,
        ).fit(x)


def _names(content: Content, x: np.ndarray, labels: np.ndarray) -> list[str]:
    """Name the clusters of a level."""
    count = int(labels.max()) + 1
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


def _scored(result: MapResult, steps: Steps) -> Scores | None:
    """Compare with the labels, if there are some."""
    if result.labels is None:
        return None
    missing = int((result.labels.codes < 0).sum())
    if missing:
        rows = counted(missing, "row has no label: it is", "rows have no label: they are")
        steps.note(f"{rows} not in the scores.")
    scores = result.score()
    if scores is None:
        steps.note("Too few rows have a label for scores.")
    return scores


def _write(
    result: MapResult,
    scores: Scores | None,
    settings: MapSettings,
    folder: MapFolder,
    steps: Steps,
) -> None:
    """Write the files for people."""
    content, clusterer = result.content, result.clusterer
    if settings.layout != "none":
        with steps.step("drawing"):
            draw_map(result, scores, settings, folder.map)
    table = assignments(content, clusterer.probabilities_, result.names, result.file)
    pages = {folder.clusters: as_csv(table)}
    written = summarize(result, scores, settings.file.name, settings.command, steps, folder)
    pages[folder.report] = written.encode()
    for path, page in pages.items():
        write_whole(path, page)
