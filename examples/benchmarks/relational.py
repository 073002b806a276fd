"""HeteroChebConv beside RGCNConv, HGTConv and HANConv, in the same network.

Node features are mapped to a common width, then come two convolutions with ReLU and dropout, and a
linear classifier of the target nodes. Only the convolution differs. Types without features get the
mean of the features of their neighbours; if no type has any, the features are singular vectors of
the links of the target nodes. On DBLP all nodes get learned embeddings in their place, which are
better on the validation nodes for every convolution. Each has two settings (SETTINGS). The
validation nodes choose one, by two seeds that are not reported, with the fewest labels; training
stops by them. Reverse edges are given to all as types of their own, as `ToUndirected` makes them.

    python examples/benchmarks/relational.py accuracy dblp.npz acm.npz aminer.npz
    python examples/benchmarks/relational.py cost dblp.npz --nodes 1000000
    python examples/benchmarks/relational.py precompute dblp.npz acm.npz aminer.npz
    python examples/benchmarks/relational.py layer --hidden 64

Every run of `accuracy` is written down in `relational_runs.csv`, and not repeated when the script
is started again. The files are of HeCo (Wang et al. 2021), as `helpers/relations.py` reads them.
Without a file, a small random graph stands in.
"""

import argparse
import functools
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from helpers import relations
from reporting import PeakMemory, Rows, isolated, machine, parser_of, timed, write_table
from scipy.sparse import csr_array, hstack
from sklearn.decomposition import TruncatedSVD
from sklearn.metrics import f1_score
from sklearn.preprocessing import normalize
from torch import Tensor
from torch.nn import Embedding, Linear, Module, ModuleDict, ModuleList, Sequential
from torch_geometric.data import HeteroData
from torch_geometric.nn import FastRGCNConv, HANConv, HGTConv, RGCNConv
from torch_geometric.transforms import ToUndirected
from torch_geometric.utils import scatter

from jsem_pyg.nn import HeteroChebConv, RelationalChebConv, relational_features

SETTINGS: dict[str, list[dict]] = {
    "RGCNConv": [{"num_bases": None}, {"num_bases": 4}],
    "HGTConv": [{"heads": 4}, {"heads": 1}],
    "HANConv": [{"heads": 4}, {"heads": 1}],
    "HeteroChebConv": [{"t": 1.0, "from_neighbors": True}, {"t": 5.0}],
    "FastRGCNConv": [{}],
}
KINDS = tuple(SETTINGS)[:4]
TUNING = (1000, 1001)  # the seeds by which settings are chosen
TYPES = 4  # of the nodes of a random graph
EMBEDDED = {"dblp"}  # data with learned embeddings in place of features
WIDTH = 128  # of the features, after a singular value decomposition


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("what", choices=["accuracy", "cost", "precompute", "layer"])
    parser.add_argument("files", type=Path, nargs="*")
    parser.add_argument("--labels", type=int, nargs="+", default=[20, 40, 60], help="a class")
    parser.add_argument("--kinds", nargs="+", default=KINDS, choices=SETTINGS)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--hidden", type=int, default=32)
    parser.add_argument("--nodes", type=int, default=None, help="of a random graph, for the cost")
    parser.add_argument("--relations", type=int, default=8, help="of a random graph")
    parser.add_argument("--quick", action="store_true", help="a small random graph, two seeds")
    return parser.parse_args(argv)


def read(path: Path, labels: int) -> HeteroData:
    """Read a file: features, labels and split of the target, and edges in both directions."""
    data, target, y, splits = relations.read(str(path))
    if "x" in data[target]:
        x = normalize(data[target].x.double(), "l1")
    else:
        links = [
            csr_array((np.ones(len(a)), (a, b)), shape=(data[target].num_nodes, b.max() + 1))
            for a, b in (each.edge_index.numpy() for each in data.edge_stores)
        ]
        x = hstack(links, format="csr")
        x = normalize(x.multiply(1 / np.sqrt(x.sum(0).clip(1))).tocsr())
    x = TruncatedSVD(WIDTH, random_state=0).fit_transform(x)
    data[target].x = torch.from_numpy(x / x.std()).float()
    data[target].y = y
    for part, nodes in zip(("train", "val", "test"), splits[str(labels)], strict=True):
        data[target][part] = nodes
    data.target = target
    fill_in(data)
    return ToUndirected(merge=False)(data)


def fill_in(data: HeteroData) -> None:
    """Give types without features the mean of their neighbours', type after type."""
    missing = True
    while missing:
        missing = False
        for a, _, b in data.edge_types:
            for here, there, way in ((a, b, (0, 1)), (b, a, (1, 0))):
                if "x" in data[there] and "x" not in data[here]:
                    here_index, there_index = data[a, "to", b].edge_index[list(way)]
                    x = data[there].x[there_index]
                    data[here].x = scatter(x, here_index, 0, data[here].num_nodes, "mean")
                    missing = True


def random_data(num_nodes: int, num_relations: int, num_classes: int = 4) -> HeteroData:
    """Draw four types of nodes, relations of as many edges as a type has nodes, half by class."""
    generator = torch.Generator().manual_seed(0)
    data, count = HeteroData(), num_nodes // TYPES
    labels = torch.randint(num_classes, (TYPES, count), generator=generator)
    by_class = [[(y == c).nonzero()[:, 0] for c in range(num_classes)] for y in labels]
    for a in range(TYPES):
        data[f"type{a}"].num_nodes = count
    for r in range(num_relations):
        a, b = r % TYPES, (r + 1 + r // TYPES) % TYPES
        source = torch.randint(count, (4 * count,), generator=generator)
        target = torch.randint(count, (4 * count,), generator=generator)
        is_like = torch.rand(len(source), generator=generator) < 0.5
        for c in range(num_classes):
            rows = (is_like & (labels[a][source] == c)).nonzero()[:, 0]
            like = by_class[b][c]
            target[rows] = like[torch.randint(len(like), rows.shape, generator=generator)]
        data[f"type{a}", f"relation{r}", f"type{b}"].edge_index = torch.stack([source, target])
    data.target = "type0"
    data["type0"].y = labels[0]
    order = torch.randperm(count, generator=generator)
    for part, rows in zip(("train", "val", "test"), order.tensor_split([80, 160]), strict=True):
        data["type0"][part] = rows
    return ToUndirected(merge=False)(data)


def name_of(file: Path | None) -> str:
    return "random" if file is None else file.stem


def load(args: argparse.Namespace, file: Path | None, labels: int) -> HeteroData:
    if file is None:
        return random_data(args.nodes or 1200, args.relations)
    return read(file, labels)


class Network(Module):
    """Maps of the features, two convolutions of a kind, and a classifier of the target nodes."""

    def __init__(
        self, kind: str, data: HeteroData, hidden: int, has_features: bool, **setting: Any
    ) -> None:
        super().__init__()
        self.kind, self.target = kind, data.target
        self.types, self.edges = data.node_types, data.edge_index_dict
        self.sizes = [data[name].num_nodes for name in self.types]
        has_features = has_features and "x" in data[self.target]
        self.x = {name: data[name].x if has_features else None for name in self.types}
        self.maps = ModuleDict()
        for name, x in self.x.items():
            count = data[name].num_nodes
            self.maps[name] = Embedding(count, hidden) if x is None else Linear(x.size(1), hidden)
        flat = data.to_homogeneous(node_attrs=[], edge_attrs=[])
        self.edge_index, self.edge_type = flat.edge_index, flat.edge_type
        metadata = data.metadata()
        make: dict[str, Callable[[], Module]] = {
            "RGCNConv": lambda: RGCNConv(hidden, hidden, len(metadata[1]), **setting),
            "FastRGCNConv": lambda: FastRGCNConv(hidden, hidden, len(metadata[1])),
            "HGTConv": lambda: HGTConv(hidden, hidden, metadata, **setting),
            "HANConv": lambda: HANConv(hidden, hidden, metadata, **setting),
            "HeteroChebConv": lambda: HeteroChebConv(hidden, hidden, metadata, **setting),
        }
        self.convs = ModuleList(make[kind]() for _ in range(2))
        self.head = Linear(hidden, int(data[data.target].y.max()) + 1)

    def forward(self) -> Tensor:
        x = {n: self.maps[n].weight if v is None else self.maps[n](v) for n, v in self.x.items()}
        for conv in self.convs:
            x = {n: F.dropout(v, 0.5, self.training) for n, v in x.items()}
            x = {n: F.relu(v) for n, v in self.convolve(conv, x).items()}
        return self.head(F.dropout(x[self.target], 0.5, self.training))

    def convolve(self, conv: Module, x: dict[str, Tensor]) -> dict[str, Tensor]:
        if "RGCN" not in self.kind:
            return conv(x, self.edges)
        out = conv(torch.cat(list(x.values())), self.edge_index, self.edge_type)
        return dict(zip(self.types, out.split(self.sizes), strict=True))


def macro_f1(out: Tensor, y: Tensor) -> float:
    return float(f1_score(y, out.argmax(-1), average="macro"))


def train(
    model: Callable[[], Tensor], module: Module, data: HeteroData, epochs: int
) -> tuple[float, float]:
    """Train until validation has not improved for 24 epochs; return its F1 and the test nodes'."""
    target = data[data.target]
    optimizer = torch.optim.Adam(module.parameters(), 0.01, weight_decay=1e-4)
    best, since = (-1.0, 0.0, 0.0), 0
    for epoch in range(epochs):
        module.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model()[target.train], target.y[target.train])
        loss.backward()
        optimizer.step()
        if epoch % 4 != 3:
            continue
        module.eval()
        with torch.no_grad():
            out = model()
            val_loss = float(F.cross_entropy(out[target.val], target.y[target.val]))
        f1 = [macro_f1(out[target[part]], target.y[target[part]]) for part in ("val", "test")]
        found = (f1[0], -val_loss, f1[1])
        since = 0 if found[:2] > best[:2] else since + 1
        best = max(best, found)
        if since == 6:
            break
    return best[0], best[2]


class Runs(Rows):
    """Runs by their settings, kept in a file, so that none is repeated."""

    def __init__(self, args: argparse.Namespace) -> None:
        key = ("data", "labels", "layer", "setting", "seed")
        super().__init__(args.output / "relational_runs.csv", *key)
        self.args, self.load = args, functools.cache(functools.partial(load, args))

    def run(self, file: Path | None, labels: int, kind: str, choice: int, seed: int) -> dict:
        """Train, unless that was done; return the settings and the result."""
        setting = SETTINGS[kind][choice]
        given = {"data": name_of(file), "labels": labels, "layer": kind, "setting": str(setting)}
        given["seed"] = seed
        for row in self.rows:
            if given.items() <= row.items():
                return row
        data = self.load(file, labels)
        torch.manual_seed(seed)
        has_features = given["data"] not in EMBEDDED
        network = Network(kind, data, self.args.hidden, has_features, **setting)
        (best, test), seconds = timed(lambda: train(network, network, data, self.args.epochs))
        self.add(given | {"validation": best, "test": test, "seconds": seconds})
        return self.rows[-1]


def accuracy(args: argparse.Namespace) -> list[dict]:
    """Tune every kind with the fewest labels by two seeds, then run others."""
    runs, found = Runs(args), {}
    for seed in range(args.seeds):
        for case in itertools.product(args.files or [None], args.labels, args.kinds):
            file, labels, kind = case
            tried = [
                sum(runs.run(file, args.labels[0], kind, choice, s)["validation"] for s in TUNING)
                for choice in range(2)
            ]
            best = runs.run(file, labels, kind, tried.index(max(tried)), seed)
            found.setdefault(case, []).append(best)
    return [
        {name: rows[0][name] for name in ("data", "labels", "layer", "setting")}
        | summary([(row["validation"], row["test"]) for row in rows])
        | {"seconds a run": statistics.mean(row["seconds"] for row in rows)}
        for rows in found.values()
    ]


def summary(runs: list[tuple[float, float]]) -> dict:
    val, test = ([100 * each[i] for each in runs] for i in (0, 1))
    spread = statistics.stdev(test) if len(test) > 1 else 0.0
    return {
        "Macro-F1": round(statistics.mean(test), 1),
        "deviation": round(spread, 1),
        "validation": round(statistics.mean(val), 1),
        "seeds": len(runs),
    }


def precompute(args: argparse.Namespace) -> list[dict]:
    """Train an MLP in mini-batches on features that were diffused once."""
    rows = []
    for file, labels in itertools.product(args.files or [None], args.labels):
        data, runs = load(args, file, labels), []
        target, start = data[data.target], time.process_time()
        for seed in range(args.seeds):
            torch.manual_seed(seed)
            sizes = {n: (data[n].num_nodes, args.hidden) for n in data.node_types}
            x_dict = {n: data[n].x if "x" in data[n] else torch.randn(sizes[n]) for n in sizes}
            x = relational_features(x_dict, data.edge_index_dict, dim=args.hidden)[data.target]
            x = (x - x.mean(0)) / (x.std(0) + 1e-6)
            mlp = Sequential(
                torch.nn.Dropout(0.5), Linear(x.size(1), args.hidden), torch.nn.ReLU(),
                torch.nn.Dropout(0.5), Linear(args.hidden, int(target.y.max()) + 1),
            )  # fmt: skip
            runs.append(train(lambda mlp=mlp, x=x: mlp(x), mlp, data, args.epochs))
        seconds = (time.process_time() - start) / args.seeds
        row = {"data": name_of(file), "labels": labels, "layer": "relational_features + MLP"}
        rows.append(row | summary(runs) | {"seconds a run": seconds})
        print(rows[-1], flush=True)
    return rows


def measure(kind: str, source: Path | None, args: argparse.Namespace) -> dict[str, float]:
    """Train a few epochs; return processor seconds and peak memory."""
    torch.set_num_threads(1)
    sum(epochs(kind, random_data(400, args.relations), args, 1))  # loads kernels and libraries
    data = load(args, source, args.labels[0])
    memory = PeakMemory()
    base, trained = memory.base, epochs(kind, data, args, 4)
    first = next(trained)  # prepares the graph, and the state of the optimiser
    first_peak, memory = memory.stop(), PeakMemory()
    fastest = min(trained)
    training = memory.stop() + memory.base - base
    found = {"s an epoch": fastest, "MB in training": training / 1e6, "first epoch, s": first}
    return found | {"first epoch, MB": first_peak / 1e6}


def epochs(kind: str, data: HeteroData, args: argparse.Namespace, count: int) -> Iterator[float]:
    """Train; yield the processor seconds of every epoch."""
    target = data[data.target]
    torch.manual_seed(0)
    network = Network(kind, data, args.hidden, has_features=True)
    optimizer = torch.optim.Adam(network.parameters(), 0.01)
    for _ in range(count):
        start = time.process_time()
        optimizer.zero_grad()
        F.cross_entropy(network()[target.train], target.y[target.train]).backward()
        optimizer.step()
        yield time.process_time() - start


def cost(args: argparse.Namespace) -> list[dict]:
    """Measure all kinds, each in a process of its own."""
    sources = [*args.files, None] if args.nodes or not args.files else args.files
    rows = []
    for source, kind in itertools.product(sources, args.kinds):
        found = isolated(measure, kind, source, args)
        rows.append({"data": name_of(source), "layer": kind} | found)
        print(rows[-1], flush=True)
    return rows


def layer(args: argparse.Namespace) -> list[dict]:
    """Measure one layer beside RGCNConv, in turn: processor seconds forward and backward."""
    nodes, edges, width = (300, 2_000, 8) if args.quick else (3_300, 50_000, args.hidden)
    rows = []
    for count, is_both in itertools.product((3, 4, 8, 40), (False, True)):
        torch.manual_seed(0)
        edge_index = torch.randint(nodes, (2, edges // (1 + is_both)))
        edge_index = edge_index[:, edge_index[0] != edge_index[1]]
        edge_type = torch.randint(count, edge_index[0].shape)
        if is_both:
            edge_index = torch.cat([edge_index, edge_index.flip(0)], 1)
            edge_type = edge_type.repeat(2)
        x = torch.randn(nodes, width, requires_grad=True)
        seconds = {}
        layers = RelationalChebConv(width, width, count), RGCNConv(width, width, count)
        for turn, each in itertools.product(range(3 if args.quick else 20), layers):
            start = time.process_time()
            each(x, edge_index, edge_type).square().mean().backward()
            if turn > 0:  # the first prepares the graph
                name = type(each).__name__
                seconds[name] = min(seconds.get(name, 1e9), time.process_time() - start)
        ours, theirs = (1e3 * each for each in seconds.values())
        directions = "both" if is_both else "one"
        found = {"relations": count, "edges in directions": directions, "ms": ours}
        rows.append(found | {"ms, RGCNConv": theirs, "ratio": ours / theirs})
        print(rows[-1], flush=True)
    return rows


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    torch.set_num_threads(1)
    if args.quick:
        args.seeds, args.epochs, args.hidden, args.nodes = 2, 20, 16, 1200
        args.labels = args.labels[:1]
    modes = {"accuracy": accuracy, "cost": cost, "precompute": precompute, "layer": layer}
    table = pd.DataFrame(modes[args.what](args))
    notes = [f"# Relational convolutions: {args.what}", machine() + "."]
    write_table(table, args.output, f"relational_{args.what}", notes)
    return table


if __name__ == "__main__":
    main()
