"""Embeddings of graphs without features: `sketch_nodes` beside FastRP, Cleora and Node2Vec.

Only edges are seen. Each method gives 128 numbers a node, and is judged by

- classification: logistic regression on a tenth of the labels, drawn at random;
- link prediction: a fifth of the edges is held out, the rest is embedded. Pairs are scored by the
  cosine of their rows, and by logistic regression on the products of their entries. As many pairs
  without an edge are drawn at random.

The regressions choose their penalty by cross-validation among the training rows. Graphs of several
node types (`dblp`) count as one graph; the authors have labels. CPU seconds are of the first task.

    export OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1
    python examples/benchmarks/sketch.py --data FOLDER        # with planetoid/, heterophilous/, ...
    python examples/benchmarks/sketch.py --million            # a million nodes, 20 million edges
    python examples/benchmarks/sketch.py --quick              # a small random graph
"""

import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
import pandas as pd
import torch
from helpers.relations import read
from reporting import PeakMemory, machine, parser_of, spread, write_table
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, normalize
from torch import Tensor
from torch_geometric.datasets import Planetoid
from torch_geometric.utils import (
    coalesce,
    remove_self_loops,
    stochastic_blockmodel_graph,
    to_undirected,
)

from jsem_pyg.diffusion import sketch_nodes

GRAPHS = ("Cora", "CiteSeer", "squirrel_filtered", "dblp")
DIM = 128
LABELLED, HELD_OUT = 0.1, 0.2
MOST_PAIRS = 20_000  # that the regression on pairs learns from
WALKS, STEPS, WINDOW, NEGATIVES = 10, 80, 10, 5  # of Node2Vec: walks a node, their nodes


class Graph(NamedTuple):
    """A graph, and labels of some of its nodes."""

    edge_index: Tensor  # [2, E], both directions
    size: int
    nodes: np.ndarray  # those with labels
    labels: np.ndarray


def load(name: str, folder: Path) -> Graph:
    """A graph of the folder, without its features."""
    if name in ("Cora", "CiteSeer"):
        data = Planetoid(str(folder / "planetoid"), name)[0]
        edges, size, labels, first = data.edge_index, data.num_nodes, data.y.numpy(), 0
    elif (path := folder / "heterophilous" / f"{name}.npz").exists():
        with np.load(path) as file:
            edges, labels = torch.from_numpy(file["edges"].T).long(), file["node_labels"]
        size, first = len(labels), 0
    else:
        edges, size, labels, first = _read_types(folder / "relations" / f"{name}.npz")
    edge_index = to_undirected(remove_self_loops(edges)[0], num_nodes=size)
    return Graph(edge_index, size, first + np.arange(len(labels)), labels)


def _read_types(path: Path) -> tuple[Tensor, int, np.ndarray, int]:
    """All node types in one numbering: the edges, N, labels, and the first labelled node."""
    data, target, labels, _ = read(str(path))
    first, size = {}, 0
    for kind in data.node_types:
        first[kind], size = size, size + data[kind].num_nodes
    edges = [
        data[kind].edge_index + torch.tensor([[first[kind[0]]], [first[kind[2]]]])
        for kind in data.edge_types
    ]
    return torch.cat(edges, dim=1), size, labels.numpy(), first[target]


def planted(size: int = 300) -> Graph:
    """Three groups with more edges inside than between."""
    labels = np.arange(size) % 3
    order = np.argsort(labels, kind="stable")
    torch.manual_seed(0)
    inside = torch.full((3, 3), 0.01) + 0.09 * torch.eye(3)
    edge_index = stochastic_blockmodel_graph([size // 3] * 3, inside)
    return Graph(edge_index, size, np.arange(size), labels[order])


def sketch(edge_index: Tensor, size: int, seed: int) -> np.ndarray:
    """Ours, with its defaults."""
    return sketch_nodes(edge_index, DIM, num_nodes=size, seed=seed).numpy()


def fast_rp(edge_index: Tensor, size: int, seed: int) -> np.ndarray:
    """FastRP with the third and fourth power, weighted 1 and 6."""
    from fastrp import FastRP

    matrix = csr_array((np.ones(edge_index.size(1)), edge_index.numpy()), (size, size))
    weights = [0.0, 0.0, 1.0, 6.0]
    model = FastRP(dim=DIM, weights=weights, seed=seed, undirected=False)
    return np.asarray(model.fit_transform(matrix), dtype=np.float32)


def cleora(edge_index: Tensor, size: int, seed: int) -> np.ndarray:
    """Cleora with its defaults: 40 steps, whitened after each. Isolated nodes get zeros."""
    from pycleora import SparseMatrix, embed

    once = edge_index[:, edge_index[0] < edge_index[1]].T.tolist()
    lines = (f"{one} {other}" for one, other in once)
    matrix = SparseMatrix.from_iterator(lines, "complex::reflexive::node", num_workers=1)
    out = np.zeros((size, DIM), dtype=np.float32)
    out[np.array(matrix.entity_ids, dtype=np.int64)] = embed(matrix, DIM, seed=seed, num_workers=1)
    return out


def random_walk(edge_index: Tensor, start: Tensor) -> Tensor:
    """Walks [M, STEPS] that choose any neighbour alike; isolated nodes stay where they are."""
    size, target = len(start), edge_index[1]
    degree = torch.bincount(edge_index[0], minlength=size)
    first = degree.cumsum(0) - degree
    walk = [start]
    for _ in range(STEPS - 1):
        node = walk[-1]
        place = first[node] + (torch.rand(size) * degree[node]).long()
        walk.append(torch.where(degree[node] > 0, target[place.clamp(max=len(target) - 1)], node))
    return torch.stack(walk, dim=1)


def node2vec(edge_index: Tensor, size: int, seed: int) -> np.ndarray:
    """Node2Vec with p = q = 1 and the settings of its paper: walks in torch, gensim's word2vec."""
    from gensim.models import Word2Vec

    torch.manual_seed(seed)
    walks = [
        walk
        for _ in range(WALKS)
        for walk in random_walk(edge_index, torch.randperm(size)).tolist()
    ]
    options = {"vector_size": DIM, "window": WINDOW, "negative": NEGATIVES, "sg": 1}
    found = Word2Vec(walks, **options, min_count=0, workers=1, epochs=1, seed=seed).wv
    out = np.zeros((size, DIM), dtype=np.float32)
    out[found.index_to_key] = found.vectors
    return out


Method = Callable[[Tensor, int, int], np.ndarray]
METHODS: dict[str, tuple[Method, str]] = {  # and the package that it needs
    "sketch_nodes": (sketch, "jsem_pyg"),
    "fastrp": (fast_rp, "fastrp"),
    "pycleora": (cleora, "pycleora"),
    "Node2Vec": (node2vec, "gensim"),
}


def regression() -> object:
    """Logistic regression that chooses its own penalty."""
    model = GridSearchCV(LogisticRegression(max_iter=300), {"C": [0.01, 0.1, 1.0]}, cv=3)
    return make_pipeline(StandardScaler(), model)


def accuracy(embedding: np.ndarray, graph: Graph, seed: int) -> float:
    """In per cent, on nine tenths of the labels."""
    order = np.random.default_rng(seed).permutation(len(graph.labels))
    count = int(LABELLED * len(order))
    train, test = order[:count], order[count:]
    x, y = embedding[graph.nodes], graph.labels
    return 100 * float(regression().fit(x[train], y[train]).score(x[test], y[test]))


def split_edges(graph: Graph, seed: int) -> tuple[Tensor, np.ndarray, np.ndarray]:
    """The graph without a fifth of its edges, and pairs [2, P] of both parts.

    The first half of the pairs are edges, the second half are none.
    """
    rng = np.random.default_rng(seed)
    once = graph.edge_index[:, graph.edge_index[0] < graph.edge_index[1]].numpy()
    once = once[:, rng.permutation(once.shape[1])]
    pairs = np.sort(rng.integers(0, graph.size, (2, 2 * once.shape[1] + 1000)), axis=0)
    is_edge = np.isin(pairs[0] * graph.size + pairs[1], once[0] * graph.size + once[1])
    none = pairs[:, ~is_edge & (pairs[0] < pairs[1])]
    count = int(HELD_OUT * once.shape[1])
    train, test = once[:, count:], once[:, :count]
    learn = min(train.shape[1], MOST_PAIRS // 2)
    known = np.concatenate([train[:, :learn], none[:, count : count + learn]], axis=1)
    asked = np.concatenate([test, none[:, :count]], axis=1)
    return to_undirected(torch.from_numpy(train), num_nodes=graph.size), known, asked


def link_scores(embedding: np.ndarray, known: np.ndarray, asked: np.ndarray) -> dict[str, float]:
    """Areas under the curve, in per cent."""
    truth = np.arange(asked.shape[1]) < asked.shape[1] // 2
    unit = normalize(embedding)
    cosine = (unit[asked[0]] * unit[asked[1]]).sum(1)
    is_known = np.arange(known.shape[1]) < known.shape[1] // 2
    products = embedding[known[0]] * embedding[known[1]]
    model = regression().fit(products, is_known)
    score = model.decision_function(embedding[asked[0]] * embedding[asked[1]])
    return {
        "links, cosine": 100 * float(roc_auc_score(truth, cosine)),
        "links, regression": 100 * float(roc_auc_score(truth, score)),
    }


def timed(method: Method, edge_index: Tensor, size: int, seed: int) -> tuple[np.ndarray, dict]:
    """The embedding, and what it took."""
    memory, cpu, wall = PeakMemory(), time.process_time(), time.perf_counter()
    embedding = method(edge_index, size, seed)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return embedding, {"CPU s": cpu, "wall s": wall, "MB": memory.stop() / 1e6}


def judge(name: str, graph: Graph, seed: int) -> dict[str, float]:
    """One embedding for each task, and its scores."""
    method = METHODS[name][0]
    embedding, spent = timed(method, graph.edge_index, graph.size, seed)
    row = {"accuracy": accuracy(embedding, graph, seed)}
    rest, known, asked = split_edges(graph, seed)
    return row | link_scores(method(rest, graph.size, seed), known, asked) | spent


def large(size: int, degree: int) -> Tensor:
    """Random edges, four of five inside groups of a thousand nodes, which have random numbers."""
    rng = np.random.default_rng(0)
    one = rng.integers(0, size, size * degree // 2)
    near = one // 1000 * 1000 + rng.integers(0, 1000, len(one))
    other = np.where(rng.random(len(one)) < 0.8, near.clip(max=size - 1), rng.permutation(one))
    edges = torch.from_numpy(rng.permutation(size)[np.stack([one, other])])
    edges = remove_self_loops(edges)[0]
    return coalesce(torch.cat([edges, edges.flip(0)], dim=1), num_nodes=size)


def main(arguments: list[str] | None = None) -> pd.DataFrame:
    """Judge every method that is installed on every graph."""
    parser = parser_of(__doc__)
    parser.add_argument("--data", type=Path, default=Path("data"), help="a folder")
    parser.add_argument("--graphs", nargs="+", default=GRAPHS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--million", action="store_true", help="time a large graph instead")
    parser.add_argument("--nodes", type=int, default=1_000_000, help="of the large graph")
    parser.add_argument("--quick", action="store_true", help="a small random graph")
    given = parser.parse_args(arguments)
    names = [name for name in given.methods if find_spec(METHODS[name][1])]
    small = planted()
    if "sketch_nodes" in names:
        sketch(small.edge_index, small.size, 0)  # compiles the kernels
    if given.million:
        table = _time_large(names, given.nodes)
    else:
        graphs = {"planted": small} if given.quick else None
        graphs = graphs or {name: load(name, given.data) for name in given.graphs}
        table = _compare(names, graphs, given.seeds)
    write_table(table, given.output, "sketch", [f"`examples/benchmarks/sketch.py`, {machine()}."])
    return table


def _compare(names: list[str], graphs: dict[str, Graph], seeds: int) -> pd.DataFrame:
    """Mean and standard deviation over seeds."""
    rows = []
    for title, graph in graphs.items():
        for name in names:
            runs = pd.DataFrame([judge(name, graph, seed) for seed in range(seeds)])
            scores = {column: spread(runs[column], 1) for column in runs.columns[:3]}
            rows.append(
                {"graph": title, "method": name} | scores | runs.iloc[:, 3:].mean().to_dict()
            )
            print(rows[-1], flush=True)
    return pd.DataFrame(rows)


def _time_large(names: list[str], size: int) -> pd.DataFrame:
    edge_index = large(size, 20)
    case = {"nodes": size, "edges": edge_index.size(1)}
    rows = []
    for name in names:
        rows.append(case | {"method": name} | timed(METHODS[name][0], edge_index, size, 0)[1])
        print(rows[-1], flush=True)
    return pd.DataFrame(rows)


if __name__ == "__main__":
    main()
