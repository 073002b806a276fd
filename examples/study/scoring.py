"""What a clustering method is worth: a row of scores for each data set, method and seed."""

from pathlib import Path
from typing import NamedTuple

from data_sets import NEIGHBOURS, StudySet
from methods import Method
from runner import SECONDS, Key, Row, Table, timed
from torch import Tensor
from torch_geometric.utils import homophily

from jsem_pyg.evaluation import clustering_scores, partition_scores
from jsem_pyg.neighbors import knn_graph


class Found(NamedTuple):
    """What a method returned."""

    result: Tensor  # embedding [N, D'] or labelling [N]
    purity: float | None
    seconds: float


def clustering_table(path: Path, wanted: list[Key], methods: dict[str, Method]) -> Table:
    """Rows of methods; one without randomness runs once for all of its seeds."""
    last: dict[tuple[str, str], Found] = {}

    def make(study_set: StudySet, key: Key) -> list[Row]:
        name, method = (key["dataset"], key["method"]), methods[key["method"]]
        if method.seeded or name not in last:
            last.clear()
            last[name] = run(method, study_set, key["seed"])
        found = last[name]
        scores = score(found.result, study_set, key["seed"])
        return [{**scores, "purity": found.purity, SECONDS: found.seconds}]

    return Table(path, wanted, make)


def run(method: Method, study_set: StudySet, seed: int) -> Found:
    """Call a method; its seconds are without the shared k-NN graph and without k-means."""
    data = study_set.data.clone()
    result, seconds = timed(lambda: method.run(data, study_set.num_classes, seed))
    return Found(result, embedding_purity(result, study_set.y), seconds)


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
    return homophily(edge_index, y, method="node")
