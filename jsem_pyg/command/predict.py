"""Assign rows that come later to the clusters of a map."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._table_files import Reading, read_rows
from ..datasets.embedder import Embedder
from ..datasets.word_features import WordFeatures
from ..estimators import DiffusionClusterer
from ..estimators.neighbor_estimator import limit_threads
from .columns import check_there, read_column
from .content import Content, Encoding, read_documents, read_vectors
from .folder import MapFolder
from .result import assignments
from .steps import Steps, counted

if TYPE_CHECKING:
    import pandas as pd


def assign(
    folder: MapFolder, file: Path, reading: Reading, cache: Path, steps: Steps
) -> "pd.DataFrame":
    """Assign the rows of a file, which are read, embedded and scaled as the map was.

    The cluster of a row does not depend on the others in the file; its embedding does in the last
    digit, since documents are embedded in blocks, which are kept. What was mapped has the cluster
    that it has there if its embedding, or its vector, is the same.
    """
    record = folder.read()
    with steps.step("reading"):
        table, content = _read(file, reading, record)
    if (content.point < 0).any():
        rows = counted(int((content.point < 0).sum()), "row is", "rows are")
        steps.note(f"{rows} in no cluster: missing is {', '.join(content.missing) or 'all'}.")
    clusterer = DiffusionClusterer.load(folder.clusterer)
    if content.vectors is None:
        x = _embedded(content.texts or [], record, cache, steps)
    else:
        x = content.vectors if record["scale"] is None else content.vectors / record["scale"]
    p = np.zeros((0, clusterer.n_clusters_))
    if len(x) > 0:
        with steps.step("assigning"), limit_threads(len(x)):
            p = clusterer.predict_proba(x)
    return assignments(content, p, record["names"], table)


def _read(file: Path, reading: Reading, record: dict[str, Any]) -> "tuple[pd.DataFrame, Content]":
    """Read the file and the columns of the map; a lone column may have any name."""
    known, types = record["columns"], record["types"]
    if record["kind"] == "texts":
        types = dict.fromkeys(known, "text")
    forms = record["encoding"]["forms"]  # of numbers that pandas may not read
    strings = [name for name in known if types[name] != "number" or name in forms]
    table = read_rows(file, replace(reading, decimal=reading.decimal or record["decimal"]), strings)
    names = list(table.columns) if len(known) == len(table.columns) == 1 else known
    check_there(table, names)
    encoding = Encoding(**record["encoding"])
    columns = [
        read_column(table[name], types[own], forms.get(own, ""))._replace(name=own)
        for name, own in zip(names, known, strict=True)
    ]
    if record["kind"] == "texts":
        return table, read_documents(columns, fewest=0)
    return table, read_vectors(columns, fewest=0, encoding=encoding)


def _embedded(texts: list[str], record: dict[str, Any], cache: Path, steps: Steps) -> np.ndarray:
    """Embed the documents [P, D] as those of the map were."""
    embedder = Embedder(record["model"], cache)
    if embedder.fingerprint != record["state of the model"]:
        is_gone = embedder.fingerprint == record["model"]  # a name, which it was not
        raise ValueError(
            f"Expected the model {record['model']!r} as it was when the map was made (got "
            f"{'no such folder here' if is_gone else 'changed files'}). To fix this, put it back, "
            "or make the map anew."
        )
    if not texts:
        return np.zeros((0, 0))
    with steps.step("embedding", len(texts)) as advance:
        x = embedder.embed(texts, advance)
    words = WordFeatures(record["words"]).load_state(record["state of the words"])
    return words.beside(x, texts).numpy()
