"""Runs what is not in the CSV yet: a row for each data set, method and seed."""

import logging
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd
from data_sets import NEIGHBOURS, StudySet
from methods import Method
from torch import Tensor

from jsem_pyg.evaluation import clustering_scores, neighbour_purity, partition_scores
from jsem_pyg.graph import knn_graph

KEY = ["dataset", "method", "seed"]
log = logging.getLogger(__name__)


def run_missing(
    path: Path, name: str, study_set: StudySet, methods: dict[str, Method], seeds: Iterable[int]
) -> None:
    """Run what `path` lacks of a data set, and write each row as soon as it is there."""
    seeds = list(seeds)
    for method_name, method in methods.items():
        done = finished(path)
        missing = [seed for seed in seeds if (name, method_name, seed) not in done]
        for scores in run_method(method, study_set, missing):
            row = {"dataset": name, "method": method_name, **scores}
            append(path, row)
            log.info("%s", row)


def run_method(method: Method, study_set: StudySet, seeds: list[int]) -> Iterator[dict]:
    """Yield the scores of each seed; a method without randomness runs once for all of them.

    `cpu_seconds` is processor time, which other programs on the machine hardly change, of the
    method alone: without the shared k-NN graph and without k-means.
    """
    for position, seed in enumerate(seeds):
        if method.seeded or position == 0:
            start = time.process_time()
            result = method.run(study_set.data.clone(), study_set.num_classes, seed)
            seconds = time.process_time() - start
            purity = embedding_purity(result, study_set.y)
        scores = score(result, study_set, seed)
        yield {"seed": seed, **scores, "purity": purity, "cpu_seconds": round(seconds, 3)}


def score(result: Tensor, study_set: StudySet, seed: int) -> dict[str, float]:
    """ARI, NMI and accuracy of a labelling, or of k-means on an embedding."""
    if result.dim() == 1:
        return partition_scores(result, study_set.y)._asdict()
    scores = clustering_scores(
        result, study_set.y, study_set.num_classes, seeds=[seed], normalize=False
    )
    return {"ari": scores.ari, "nmi": scores.nmi, "acc": scores.acc}


def embedding_purity(result: Tensor, y: Tensor) -> float | None:
    """Share of a point's neighbours in the embedding's own k-NN graph that have its class."""
    if result.dim() == 1:
        return None
    edge_index, _ = knn_graph(
        result, min(NEIGHBOURS, len(y) - 1), metric="l2", kernel=None, connect=False
    )
    return neighbour_purity(edge_index, y)


def read(path: Path) -> pd.DataFrame:
    """The rows so far; none if there is no file."""
    return pd.read_csv(path) if path.exists() else pd.DataFrame(columns=KEY)


def finished(path: Path) -> set[tuple[str, str, int]]:
    """What need not run again."""
    return set(read(path)[KEY].itertuples(index=False, name=None))


def append(path: Path, row: dict) -> None:
    """Write the file anew with one row more, whole or not at all."""
    rows = read(path).to_dict("records")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    pd.DataFrame([*rows, row]).to_csv(temporary, index=False, float_format="%.6g")
    os.replace(temporary, path)
