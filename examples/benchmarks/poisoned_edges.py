"""What do wrong edges cost, and do learned conductances close them?

Cora, CiteSeer and the graph of the 15 nearest neighbours of 2,000 items of AG News, all edges of
weight one, get new edges: 5 to 50 % of their number, in one of two ways. "random" joins any two
nodes. "attack" knows all classes: again and again it joins the node of the lowest degree to the
node of the lowest degree among those of other classes.

With ten labels a class (accuracy on all other nodes, after the last epoch; no validation nodes):

- no graph: logistic regression;
- GCN: two layers of 32 channels, 100 epochs;
- GCN, cleaned: the same without edges whose ends are unlike (Wu et al., "Adversarial examples for
  graph data", IJCAI 2019): a Jaccard overlap of their words below 0.01, or, of embeddings, a cosine
  below that of 95 % of random pairs;
- heat: the same network of `AnisotropicChebConv` without edge features, so that all edges are open;
- heat, conductance: one that learns from the overlap or the cosine of both ends, standardised;
- heat, pruned: the latter network, without the edges that `prune_edges` drops after the training;
- classifier, open, and classifier: `DiffusionClassifier`, which `fit` trains with the labels.

Without labels (ARI; the number of classes is given): k-means, and `DiffusionClassifier` by
self-training, which `DiffusionClusterer` is made of: open, on the cleaned graph, with its
conductance (by the classes of both ends), and without the edges that `prune_edges` drops then. It
reads 100 components of words.

    export OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1
    python examples/benchmarks/poisoned_edges.py --data FOLDER   # planetoid/, agnews8k_minilm.npz
    python examples/benchmarks/poisoned_edges.py --quick         # some digits, seconds

Rows that poisoned_edges.csv in --output has already are not run again.
"""

import argparse
import heapq
import sys
import time
from itertools import product
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "study"))
import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from data_sets import StudySet, hide_labels, load
from drop_in import drop
from learned import Open
from reporting import Rows, machine, parser_of
from sklearn.cluster import KMeans
from sklearn.decomposition import TruncatedSVD
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv
from torch_geometric.utils import coalesce, to_torch_csr_tensor

from jsem_pyg.evaluation import partition_scores
from jsem_pyg.nn import AnisotropicChebConv, DiffusionClassifier
from jsem_pyg.partition import prune_edges
from jsem_pyg.training import fit

POINTS = 2000  # of AG News
SETS = ("cora", "citeseer", "agnews")
CASES = [("none", 0.0), *product(("random", "attack"), (0.05, 0.1, 0.25, 0.5))]
KEY = ["seed", "dataset", "attack", "level"]
LABELS, HIDDEN, COMPONENTS = 10, 32, 100
EPOCHS, RATE = 100, 3.0  # chosen on digits under attack, of 100 and 200, and of 1, 3 and 10
LEAST_OVERLAP, RANDOM_SHARE = 0.01, 0.95  # of the cleaned graph
THRESHOLD = 0.25  # of `prune_edges`: half of what an edge conducts at first
TOLERANCE = 1e-3  # of heat within a network


class Case(NamedTuple):
    """What the methods are given."""

    x: Tensor  # [N, D], rows of length one
    edge_index: Tensor  # [2, E], both directions, without repeats
    alike: Tensor  # [E] how much alike both ends are
    is_unlike: Tensor  # [E] True for the edges that are cleaned away
    known: Tensor  # [N] -1 if no label is given
    num_classes: int


def random_pairs(size: int, edge_index: Tensor, count: int, rng: np.random.Generator) -> np.ndarray:
    """Pairs [2, count] of nodes without an edge."""
    pairs = np.sort(rng.integers(0, size, (2, 3 * count + 100)), axis=0)
    old = edge_index[0].numpy() * size + edge_index[1].numpy()
    key = np.unique(pairs[0] * size + pairs[1])
    key = rng.permutation(key[(key // size != key % size) & ~np.isin(key, old)])[:count]
    return np.stack([key // size, key % size])


def attack_pairs(y: Tensor, edge_index: Tensor, count: int, rng: np.random.Generator) -> np.ndarray:
    """Pairs [2, count] of different classes; each joins two nodes of a degree as low as can be."""
    degree, place = torch.bincount(edge_index[0], minlength=len(y)).tolist(), rng.random(len(y))
    joined, label = set(map(tuple, edge_index.T.tolist())), y.tolist()
    heap = [(degree[node], place[node], node) for node in range(len(y))]
    heapq.heapify(heap)
    pairs = []
    for _ in range(count):
        one, passed = heapq.heappop(heap), []
        while True:
            other = heapq.heappop(heap)
            ends = one[2], other[2]
            if label[ends[0]] != label[ends[1]] and ends not in joined:
                break
            passed.append(other)
        pairs.append(ends)
        joined |= {ends, ends[::-1]}
        for entry in (*passed, *((d + 1, rng.random(), node) for d, _, node in (one, other))):
            heapq.heappush(heap, entry)
    return np.array(pairs, dtype=np.int64).reshape(-1, 2).T


def likeness(x: Tensor, one: Tensor, other: Tensor) -> Tensor:
    """The Jaccard overlap of words, or the cosine of dense rows, for pairs [M]."""
    parts = []
    for i, j in zip(one.split(4096), other.split(4096), strict=True):
        if has_words(x):
            both, any_ = (x[i] > 0) & (x[j] > 0), (x[i] > 0) | (x[j] > 0)
            parts.append(both.sum(1) / any_.sum(1).clamp(min=1))
        else:
            parts.append((x[i] * x[j]).sum(1))
    return torch.cat(parts)


def has_words(x: Tensor) -> bool:
    """Whether rows are bags of words, nearly all zeros."""
    return bool((x[:100] == 0).float().mean() > 0.9)


def poison(given: StudySet, attack: str, level: float, seed: int) -> Case:
    """Add edges, and draw the labels; both by the seed."""
    x, edge_index, size = given.data.x, given.data.edge_index, len(given.y)
    rng = np.random.default_rng(seed)
    order = torch.from_numpy(rng.permutation(size))
    known = torch.full((size,), -1)
    for label in range(given.num_classes):
        nodes = order[given.y[order] == label][:LABELS]
        known[nodes] = label
    count = round(level * edge_index.size(1) / 2)
    if attack == "attack":
        new = torch.from_numpy(attack_pairs(given.y, edge_index, count, rng))
    else:
        new = torch.from_numpy(random_pairs(size, edge_index, count, rng))
    edge_index = coalesce(torch.cat([edge_index, new, new.flip(0)], dim=1), num_nodes=size)
    alike, least = likeness(x, *edge_index), LEAST_OVERLAP
    if not has_words(x):
        pairs = torch.from_numpy(rng.integers(0, size, (2, 10_000)))
        least = float(likeness(x, *pairs).quantile(RANDOM_SHARE))
    return Case(x, edge_index, alike, alike < least, known, given.num_classes)


class Network(torch.nn.Module):
    """Two convolutions, with dropout before both; before the first one of words only."""

    def __init__(self, conv: type[torch.nn.Module], x: Tensor, num_classes: int, **options) -> None:
        super().__init__()
        self.x = x.to_sparse_csr() if has_words(x) else x
        self.first = conv(x.size(1), HIDDEN, **options)
        self.last = conv(HIDDEN, num_classes, **options)

    def forward(self, *edges: Tensor, **features: Tensor) -> Tensor:
        p = 0.0 if self.x.layout == torch.strided else 0.5  # of words only
        h = self.first(drop(self.x, p, self.training), *edges, **features).relu()
        return self.last(F.dropout(h, 0.5, self.training), *edges, **features)


def train(model: Network, known: Tensor, edges: Tensor, **features: Tensor) -> None:
    groups = [
        {"params": model.first.parameters(), "weight_decay": 5e-4},
        {"params": model.last.parameters()},
    ]
    optimizer = torch.optim.Adam(groups, lr=0.01)
    for _ in range(EPOCHS):
        optimizer.zero_grad()
        F.cross_entropy(model(edges, **features)[known >= 0], known[known >= 0]).backward()
        optimizer.step()
    model.eval()


def gcn(case: Case, edge_index: Tensor, seed: int) -> Tensor:
    """The classes [N] that a GCN predicts."""
    seed_everything(seed)
    adjacency = to_torch_csr_tensor(edge_index, size=(len(case.x),) * 2)
    model = Network(GCNConv, case.x, case.num_classes, cached=True)
    train(model, case.known, adjacency)
    with torch.no_grad():
        return model(adjacency).argmax(-1)


def heat(case: Case, seed: int, learns: bool) -> dict[str, Tensor]:
    """The classes that the same network of heat predicts; pruned, if it learns conductances."""
    seed_everything(seed)
    options = {"edge_dim": int(learns), "tol": TOLERANCE, "rate": RATE}
    model = Network(AnisotropicChebConv, case.x, case.num_classes, **options)
    attr = ((case.alike - case.alike.mean()) / case.alike.std())[:, None]
    features = {"edge_attr": attr} if learns else {}
    train(model, case.known, case.edge_index, **features)
    with torch.no_grad():
        found = model(case.edge_index, **features).argmax(-1)
        if not learns:
            return {"heat": found}
        conducts = [layer.conductance(attr) for layer in (model.first, model.last)]
        data = Data(edge_index=case.edge_index, edge_attr=attr, num_nodes=len(case.x))
        conductance = torch.stack(conducts, dim=1)
        left = prune_edges(data, conductance, THRESHOLD, max_share=1.0).data
        pruned = model(left.edge_index, edge_attr=left.edge_attr).argmax(-1)
    return {"heat, conductance": found, "heat, pruned": pruned}


def classify(
    case: Case, x: Tensor, edge_index: Tensor, seed: int, is_open: bool, labels: Tensor | None
) -> dict[str, Tensor]:
    """The classes that a `DiffusionClassifier` finds, also on its pruned graph."""
    conductance = Open() if is_open else None
    model = DiffusionClassifier(x.size(1), case.num_classes, conductance=conductance)
    data = Data(x=x, edge_index=edge_index, num_nodes=len(x))
    fit(model, data, labels=labels, seed=seed, progress=False)
    with torch.no_grad():
        found = {"whole": model(x, edge_index).argmax(-1)}
        if not is_open:
            conductance = model.conductances(x, edge_index)
            left = prune_edges(data, conductance, THRESHOLD, max_share=1.0).data
            found["pruned"] = model(x, left.edge_index).argmax(-1)
    return found


def run(given: StudySet, attack: str, level: float, seed: int) -> dict[str, float]:
    """All scores of one graph, in per cent."""
    case = poison(given, attack, level, seed)
    cleaned, known = case.edge_index[:, ~case.is_unlike], case.known
    rows, test = case.x.numpy(), known < 0
    reader = LogisticRegression(C=100.0, max_iter=1000).fit(rows[~test], known[~test])
    found = {
        "no graph": torch.from_numpy(reader.predict(rows)),
        "GCN": gcn(case, case.edge_index, seed),
        "GCN, cleaned": gcn(case, cleaned, seed),
        **heat(case, seed, learns=False),
        **heat(case, seed, learns=True),
    }
    x = case.x
    if has_words(x):
        svd = TruncatedSVD(COMPONENTS, random_state=seed)
        x = F.normalize(torch.from_numpy(svd.fit_transform(rows)).float())
    edges = case.edge_index
    for name, is_open in (("classifier, open", True), ("classifier", False)):
        found[name] = classify(case, x, edges, seed, is_open, known)["whole"]
    accuracy = {
        f"accuracy: {name}": 100 * float((p[test] == given.y[test]).float().mean())
        for name, p in found.items()
    }
    learned = classify(case, x, edges, seed, False, None)
    k_means = KMeans(case.num_classes, n_init=3, random_state=seed).fit_predict(x.numpy())
    clusters = {
        "k-means": torch.from_numpy(k_means).long(),
        "open": classify(case, x, edges, seed, True, None)["whole"],
        "open, cleaned": classify(case, x, cleaned, seed, True, None)["whole"],
        "conductance": learned["whole"],
        "pruned": learned["pruned"],
    }
    ari = {f"ARI: {k}": 100 * partition_scores(p, given.y).ari for k, p in clusters.items()}
    return accuracy | ari | {"edges": case.edge_index.size(1), "kept": cleaned.size(1)}


def complete(args: argparse.Namespace) -> pd.DataFrame:
    """Run what the file lacks; the first seed of all graphs comes before the next."""
    rows = Rows(args.output / "poisoned_edges.csv", *KEY)
    loaded: dict[str, StudySet] = {}
    for seed, name, (attack, level) in product(range(args.seeds), args.sets, CASES):
        key = seed, name, attack, level
        if rows.has(*key):
            continue
        if name not in loaded:
            given = load(name, args.data, args.quick)
            if name == "agnews":
                given = hide_labels(Data(x=given.data.x[:POINTS], y=given.y[:POINTS]))
            loaded[name] = given
        began = time.process_time()
        row = dict(zip(KEY, key, strict=True)) | run(loaded[name], attack, level, seed)
        rows.add(row | {"cpu_seconds": time.process_time() - began})
    return rows.table()


def as_table(runs: pd.DataFrame, score: str) -> str:
    """Mean and standard deviation over the seeds, a row for each graph and method."""
    names = [name for name in runs if name.startswith(f"{score}: ")]
    columns = [f"{attack} {100 * level:g} %" if level else "as it is" for attack, level in CASES]
    lines = [f"| {score}, % | {' | '.join(columns)} |", "| --- " * (len(columns) + 1) + "|"]
    for dataset, part in runs.groupby("dataset", sort=False):
        groups = part.groupby(["attack", "level"])[names]
        mean, spread = groups.mean(), groups.std(ddof=0)
        best = mean.round(1).max(axis=1)
        for name in names:
            cells = []
            for case in CASES:
                text = f"{mean.loc[case, name]:.1f} ± {spread.loc[case, name]:.1f}"
                is_best = round(mean.loc[case, name], 1) == best[case]
                cells.append(f"**{text}**" if is_best else text)
            lines.append(f"| {dataset}, {name.split(': ')[1]} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__, "output/poisoned_edges")
    parser.add_argument("--data", type=Path, help="folder of the data")
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="some digits, at most two seeds")
    args = parser.parse_args(argv)
    if args.quick:
        args.sets, args.seeds = ["digits"], min(args.seeds, 2)
    return args


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    runs = complete(args)
    tables = "\n".join(as_table(runs, score) for score in ("accuracy", "ARI"))
    text = f"{runs['seed'].nunique()} seeds, mean ± standard deviation; {machine()}.\n\n{tables}"
    (args.output / "poisoned_edges_tables.md").write_text(text)
    print(text)
    return runs


if __name__ == "__main__":
    main()
