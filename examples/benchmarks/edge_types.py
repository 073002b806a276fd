"""Does a convolution learn which edges to trust?

A planted graph: 1,500 nodes of five classes, 20 labels a class, features that say little. Edges are
of several types; in some of them most edges join nodes of one class, in the others any two nodes.
`GCNConv` does not see the types, `RGCNConv` has a matrix for each, and `AnisotropicChebConv` learns
how well each conducts, from the types (`num_relations`) or from features of the edges. All else is
as in PyG's `examples/gcn.py`; the test accuracy is that of the best validation.

    python examples/benchmarks/edge_types.py --seeds 3
"""

import argparse
from functools import partial

import pandas as pd
import torch
import torch.nn.functional as F
from drop_in import train_as_gcn
from torch import Tensor
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, RGCNConv
from torch_geometric.utils import to_undirected

from jsem_pyg.nn import AnisotropicChebConv

CLASSES, CHANNELS, HIDDEN, LABELS = 5, 16, 16, 20
# Number of types, how many join any two nodes, and what the edge features are.
GRAPHS = {
    "two of four are noise": (4, 2, "type"),
    "three of five are noise": (5, 3, "type"),
    "two of four, three numbers an edge": (4, 2, "numbers"),
    "features say nothing": (4, 2, "nothing"),
}


def planted(name: str, seed: int, num_nodes: int = 1500) -> Data:
    """Noise has six edges a node and type, the others three, 70 % of them within a class."""
    types, noise, features = GRAPHS[name]
    seed_everything(seed)
    y = torch.randint(CLASSES, (num_nodes,))
    x = 0.2 * torch.randn(CLASSES, CHANNELS)[y] + torch.randn(num_nodes, CHANNELS)
    order, kept = y.argsort(), {}
    start, count = torch.bincount(y, minlength=CLASSES).cumsum(0), torch.bincount(y)
    for this in range(types):
        size = num_nodes * 3 // (1 if this < noise else 2)
        source, target = torch.randint(num_nodes, (2, size))
        within = order[(start - count)[y[source]] + (torch.rand(size) * count[y[source]]).long()]
        target = target if this < noise else torch.where(torch.rand(size) < 0.7, within, target)
        for a, b in zip(source.tolist(), target.tolist(), strict=True):
            if a != b:
                kept[min(a, b), max(a, b)] = this
    edges, kind = torch.tensor(list(kept)).T, torch.tensor(list(kept.values()))
    edge_attr = F.one_hot(kind, types).float()
    if features == "numbers":  # the first tells, with errors
        edge_attr = torch.randn(len(kind), 3)
        edge_attr[:, 0] += torch.where(kind < noise, -1.0, 1.0)
    elif features == "nothing":
        shuffled = torch.randperm(len(kind))
        edge_attr, kind = edge_attr[shuffled], kind[shuffled]
    edge_index, (edge_attr, kind) = to_undirected(edges, [edge_attr, kind], reduce="mean")
    train = torch.cat([(y == c).nonzero()[:LABELS, 0] for c in range(CLASSES)])
    rest = torch.randperm(num_nodes)
    rest = rest[~torch.isin(rest, train)]
    data = Data(x=x, y=y, edge_index=edge_index, edge_attr=edge_attr, edge_type=kind)
    data.train_mask, data.val_mask, data.test_mask = train, *rest.tensor_split([num_nodes // 5])
    return data


class Net(torch.nn.Module):
    def __init__(self, conv: str, data: Data) -> None:
        super().__init__()
        has_types = conv in ("RGCNConv", "relations")
        given = {"edge_type": data.edge_type} if has_types else {"edge_attr": data.edge_attr}
        self.edges = {} if conv == "GCNConv" else given
        width = data.edge_attr.size(1)
        make = {
            "GCNConv": GCNConv,
            "RGCNConv": partial(RGCNConv, num_relations=5),
            "relations": partial(AnisotropicChebConv, edge_dim=0, num_relations=5),
            "ours": partial(AnisotropicChebConv, edge_dim=width),
        }
        if conv not in make:
            rate = float(conv.removeprefix("rate "))
            make[conv] = partial(AnisotropicChebConv, edge_dim=width, rate=rate)
        self.conv1, self.conv2 = make[conv](CHANNELS, HIDDEN), make[conv](HIDDEN, CLASSES)

    def forward(self, data: Data) -> Tensor:
        x = F.dropout(data.x, 0.5, self.training)
        x = self.conv1(x, data.edge_index, **self.edges).relu()
        out: Tensor = self.conv2(F.dropout(x, 0.5, self.training), data.edge_index, **self.edges)
        return out


def run(conv: str, data: Data, seed: int, epochs: int) -> float:
    """The test accuracy at the best validation epoch."""
    seed_everything(seed)
    return train_as_gcn(Net(conv, data), data, epochs)[1]


def main(argv: list[str] | None = None) -> pd.DataFrame:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--rates", nargs="*", default=["0.03", "5"], help="beside the default")
    args = parser.parse_args(argv)
    rows: dict[str, dict[str, str]] = {}
    for name in GRAPHS:
        graphs = [planted(name, seed) for seed in range(args.seeds)]
        rates = [f"rate {rate}" for rate in args.rates]
        for conv in ["GCNConv", "RGCNConv", "relations", "ours", *rates]:
            runs = [run(conv, data, i, args.epochs) for i, data in enumerate(graphs)]
            found = pd.Series(runs)
            rows.setdefault(conv, {})[name] = f"{found.mean():.3f} ± {found.std():.3f}"
    table = pd.DataFrame(rows).T
    print("Test accuracy, mean ± standard deviation over seeds\n")
    print(table.to_string())
    return table


if __name__ == "__main__":
    main()
