"""Make a map: read a file, embed it, cluster, name, score, draw and write."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .._files import write_whole
from .._table_files import Reading, read_rows
from ..datasets.embedder import Embedder
from ..datasets.text import check_installed
from ..datasets.word_features import WordFeatures
from ..estimators import DiffusionClusterer
from ..estimators.columns import name_by_columns
from ..estimators.neighbor_estimator import limit_threads
from ..training.choose_num_classes import say_distinctness
from .columns import Choice, choose_columns, is_of_few
from .content import Content, read_documents, read_labels, read_vectors
from .folder import MapFolder
from .naming import name_clusters
from .pages import draw_map, summarize
from .result import MapResult, as_csv, assignments
from .steps import Steps, counted

_PLURALS = {"number": "numbers", "date": "dates", "category": "categories", "vector": "vectors"}
_COMPARED = {"l2": "Euclidean distance", "cosine": "the cosine"}
_SCALED = {
    "auto": "each column divided by its interquartile range",
    "robust": "each column divided by its interquartile range",
    "standard": "each column divided by its standard deviation",
    "none": "columns as they are",
}


@dataclass(frozen=True)
class MapSettings:
    """Holds the file and the options of `jsem-pyg map`."""

    file: Path
    reading: Reading
    command: str  # what was typed
    columns: Sequence[str]
    types: Mapping[str, str]
    labels: str | None
    missing: str
    clusters: int | None
    neighbors: int
    metric: str
    scale: str
    words: float
    layout: str
    seed: int


def make_map(settings: MapSettings, folder: MapFolder, embedder: Embedder, steps: Steps) -> None:
    """Write the map of a file to a folder."""
    with steps.step("reading"):
        strings = [name for name, type in settings.types.items() if type != "number"]
        labels = settings.labels
        table = read_rows(settings.file, settings.reading, [*strings, *filter(None, [labels])])
        decimal = settings.reading.decimal or ""
        choice = choose_columns(table, settings.columns, labels, settings.types, decimal)
        if choice.kind == "texts":
            check_installed(embedder.model)
            content = read_documents(choice.points)
        else:
            content = read_vectors(choice.points, choice.texts, impute=settings.missing == "impute")
        codes, classes = (None, []) if labels is None else read_labels(table[labels])
    _show_source(choice, content, not settings.columns, steps)
    if settings.clusters is not None and settings.clusters > content.point.max() + 1:
        raise ValueError(
            "Expected at most as many --clusters as there are rows that differ (got "
            f"{settings.clusters} for {content.point.max() + 1})."
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
            levels = clusterer.tree_.levels
            names = [_names(content, x, level.labels) for level in levels]
        if settings.clusters is None:
            for i, (level, found) in enumerate(zip(levels, names, strict=True)):
                steps.note(
                    f"{counted(level.n_clusters, 'cluster')} "
                    f"({'taken' if i == 0 else f'--clusters {level.n_clusters}'}; persist over "
                    f"{level.persistence:.0%} of the scales): {' | '.join(found)}"
                )
        steps.note(say_distinctness(clusterer.distinctness_, clusterer.n_clusters_))
        result = MapResult(content, x, clusterer, names, codes, classes, table)
        if codes is not None and (missing := int((codes < 0).sum())):
            rows = counted(missing, "row has no label: it is", "rows have no label: they are")
            steps.note(f"{rows} not in the scores.")
        with steps.step("scoring"):
            scores = result.score()
        if codes is not None and scores is None:
            steps.note("Too few rows have a label for scores.")
        if settings.layout != "none":
            with steps.step("drawing"):
                page = {"layout": settings.layout, "random_state": settings.seed}
                draw_map(result, scores, folder.map, settings.file.name, settings.command, **page)
    write_whole(
        folder.clusters, as_csv(assignments(content, clusterer.probabilities_, names[0], table))
    )
    is_drawn = settings.layout != "none"
    report = summarize(result, scores, settings.file.name, settings.command, steps, is_drawn)
    write_whole(folder.report, report.encode())
    is_text = content.vectors is None
    folder.finish(
        {
            "columns": [column.name for column in choice.points],
            "types": {column.name: column.type for column in choice.points},
            "kind": choice.kind,
            "decimal": settings.reading.decimal,
            "encoding": content.encoding._asdict(),
            "scale": scale,
            "model": embedder.model,
            "state of the model": embedder.fingerprint if is_text else None,
            "words": settings.words,
            "state of the words": words.state() if is_text else None,
            "names": names[0],
        }
    )


def _show_source(choice: Choice, content: Content, is_guessed: bool, steps: Steps) -> None:
    """Print what was read, guessed and left out."""
    listed: dict[str, list[str]] = {}
    for column in choice.points:
        listed.setdefault(_PLURALS.get(column.type, "text"), []).append(column.name)
    what = "; ".join(f"{kind} of: {', '.join(names)}" for kind, names in listed.items())
    guess = " (guessed; --column says otherwise)" if is_guessed else ""
    steps.note(f"{counted(len(content.point), 'row')}; clustered is {what}{guess}.")
    if choice.left_out:
        reasons = (f"{name} ({why})" for name, why in choice.left_out.items())
        steps.note(f"Columns left out: {', '.join(reasons)}.")
    if read := [f"{each.name} ({each.note})" for each in choice.points if each.note]:
        steps.note(f"Read from what is written: {', '.join(read)}.")
    if few := [each.name for each in choice.points if is_of_few(each)]:
        names = f"of {', '.join(few)}, if they are kinds and no amounts"
        steps.note(f"Few whole numbers: --type NAME=category makes categories {names}.")
    if "dates" in listed:
        steps.note("Dates are compared by the days between them.")
    if choice.texts:
        names = ", ".join(column.name for column in choice.texts)
        steps.note(f"Clusters are named by text of: {names}.")
    if content.missing and content.encoding.fill is not None:
        filled = ", ".join(f"{count:,} of {name}" for name, count in content.missing.items())
        steps.note(f"Missing numbers are the median of their column (--missing): {filled}.")
    elif content.missing:
        lacking = ", ".join(f"{name} in {count:,}" for name, count in content.missing.items())
        fix = "" if choice.kind == "texts" else "; --missing impute takes the median in its place"
        left_out = counted(int((content.point < 0).sum()), "row is", "rows are")
        steps.note(f"{left_out} left out, in no cluster. Missing is {lacking}{fix}.")
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
            settings.clusters or "auto",
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
