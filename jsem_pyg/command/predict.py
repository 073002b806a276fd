"""Assign rows that come later to the clusters of a map."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._table_files import Reading, read_rows, suffix_of
from ..datasets.embedder import Embedder
from ..datasets.word_features import WordFeatures
from ..estimators.neighbor_estimator import limit_threads
from .columns import check_there, read_column
from .content import Content, Encoding, read_documents, read_vectors
from .folder import MapFolder
from .result import assignments
from .steps import Steps, counted

if TYPE_CHECKING:
    import pandas as pd


def assign(
    folder: MapFolder,
    file: Path,
    reading: Reading,
    columns: Sequence[str],
    cache: Path,
    steps: Steps,
) -> "pd.DataFrame":
    """Assign the rows of a file, which are read, embedded and scaled as the map was.

    The cluster of a row does not depend on the others in the file; its embedding does in the last
    digit, since documents are embedded in blocks, which are kept. A document that was mapped gets
    the cluster that it has there.
    """
    record = folder.read()
    with steps.step("reading"):
        table, content = _read(file, reading, columns, record)
    if content.missing:
        lacking = ", ".join(dict.fromkeys(content.missing.values()))
        rows = counted(len(content.missing), "row is", "rows are")
        steps.note(f"{rows} in no cluster: missing is {lacking}.")
    if content.vectors is None:
        p = _of_documents(content.texts or [], record, folder, cache, steps)
    else:
        p = _of_vectors(content.vectors, record["scale"], folder, file, steps)
    return assignments(content, p, record["names"], table)


def _read(
    file: Path, reading: Reading, columns: Sequence[str], record: dict[str, Any]
) -> "tuple[pd.DataFrame, Content]":
    """Read the file and the columns of the map, which `columns` may name otherwise."""
    known, is_text = record["columns"], record["kind"] == "texts"
    types = ["text"] * len(columns or known) if is_text else list(record["types"].values())
    alone = suffix_of(file) in (".txt", ".npy") and not reading.delimiter
    if not columns or sorted(columns) == sorted(known):  # the same names mean the same
        columns = known
    if not is_text and len(columns) != len(known) and not alone:
        raise ValueError(f"Expected as many columns as {known} (got {list(columns)}).")
    reading = replace(
        reading,
        decimal=reading.decimal or record["decimal"],
        thousands=reading.thousands or record["thousands"],
    )
    strings = [name for name, type in zip(columns, types, strict=True) if type != "number"]
    table = read_rows(file, reading, strings)
    columns = list(table.columns) if alone else list(columns)
    check_there(table, columns)
    if is_text:
        return table, read_documents([read_column(table[name], "text") for name in columns], 0)
    encoding = Encoding(**record["encoding"])
    cells = table[columns].set_axis(known, axis=1)
    read = [
        read_column(cells[name], type, encoding.forms.get(name, ""))
        for name, type in zip(known, types, strict=True)
    ]
    return table, read_vectors(read, fewest=0, encoding=encoding)


def _of_vectors(
    x: np.ndarray, scale: np.ndarray | None, folder: MapFolder, file: Path, steps: Steps
) -> np.ndarray:
    """Return the probabilities of the clusters for vectors [P, D]."""
    clusterer = folder.read_clusterer()
    if x.shape[1] != clusterer.n_features_in_:
        raise ValueError(
            f"Expected vectors of {clusterer.n_features_in_} dimensions, as the map has them (got "
            f"{x.shape[1]} in '{file}')."
        )
    if len(x) == 0:
        return np.zeros((0, clusterer.n_clusters_))
    with steps.step("assigning"), limit_threads(len(x)):
        return clusterer.predict_proba(x if scale is None else x / scale)


def _of_documents(
    texts: list[str], record: dict[str, Any], folder: MapFolder, cache: Path, steps: Steps
) -> np.ndarray:
    """Return the probabilities of the clusters for documents; the map has those of its own."""
    embedder = Embedder(record["model"], cache)
    if embedder.fingerprint != record["state of the model"]:
        is_gone = embedder.fingerprint == record["model"]  # a name, which it was not
        raise ValueError(
            f"Expected the model {record['model']!r} as it was when the map was made (got "
            f"{'no such folder here' if is_gone else 'changed files'}). To fix this, put it back, "
            "or make the map anew."
        )
    clusterer = folder.read_clusterer()
    place = {text: i for i, text in enumerate(record["documents"])}
    new = [text for text in texts if text not in place]
    found = np.zeros((0, clusterer.n_clusters_))
    if new:
        with steps.step("embedding", len(new)) as advance:
            x = embedder.embed(new, advance)
        words = WordFeatures(record["words"]).load_state(record["state of the words"])
        x = words.beside(x, new)
        with steps.step("assigning"), limit_threads(len(x)):
            found = clusterer.predict_proba(x.numpy())
    place |= {text: len(place) + i for i, text in enumerate(new)}
    return np.concatenate([clusterer.probabilities_, found])[[place[text] for text in texts]]
