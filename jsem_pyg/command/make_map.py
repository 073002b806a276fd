"""Make a map of a file that was read: embed it, cluster, name, score, draw and write."""

import numpy as np

from .._files import write_whole
from ..datasets.embedder import Embedder
from ..datasets.text import check_installed
from ..datasets.word_features import WordFeatures
from ..estimators import DiffusionClusterer
from ..estimators.columns import name_by_columns, number_alike
from ..estimators.neighbor_estimator import limit_threads
from ..training.distinctness import say_distinctness
from .columns import Choice
from .content import Content
from .folder import MapFolder
from .naming import name_clusters
from .pages import draw_map, summarize
from .result import MapResult, as_csv, assignments
from .source import MapSettings, Source
from .steps import Steps, counted

_COMPARED = {"l2": "Euclidean distance", "cosine": "the cosine"}
_SCALED = {
    "auto": "each column divided by its interquartile range",
    "robust": "each column divided by its interquartile range",
    "standard": "each column divided by its standard deviation",
    "none": "columns as they are",
}


def make_map(
    settings: MapSettings, source: Source, folder: MapFolder, embedder: Embedder, steps: Steps
) -> None:
    """Write the map of a file that was read to a folder."""
    table, choice, content, codes, classes = source
    if choice.kind == "texts":
        check_installed(embedder.model)
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
        if scale is not None and (weights := content.weights(scale)):
            listed = ", ".join(f"{name} {weight:.2f}" for name, weight in weights.items())
            steps.note(f"Categories count by agreement with other columns, up to 1: {listed}.")
        clusterer = _fitted(x, choice, settings, steps)
        clusterer.save(folder.clusterer)
        with steps.step("naming"):
            levels = clusterer.tree_.levels
            names = [_names(content, x, level.labels, source) for level in levels]
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


def _fitted(
    x: np.ndarray, choice: Choice, settings: MapSettings, steps: Steps
) -> DiffusionClusterer:
    """Cluster the points [P, D]."""
    fitting = "l2" if choice.kind == "table" else "cosine"
    metric = fitting if settings.metric == "auto" else settings.metric
    if choice.kind == "table":
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


def _names(content: Content, x: np.ndarray, labels: np.ndarray, source: Source) -> list[str]:
    """Name the clusters of a level, each by another name: by texts, columns, or what labels say."""
    names = [f"cluster {cluster}" for cluster in range(int(labels.max()) + 1)]
    if content.texts is not None:
        names = name_clusters(content.texts, labels, len(names))
    elif content.names:
        names = name_by_columns(x, labels, content.names, content.is_category)
    elif source.codes is not None:
        codes = source.codes[content.first_row]
        for cluster in range(len(names)):
            known = codes[(labels == cluster) & (codes >= 0)]
            if len(known) > 0:
                names[cluster] = f"mostly {source.classes[np.bincount(known).argmax()]}"
    return number_alike(names)
