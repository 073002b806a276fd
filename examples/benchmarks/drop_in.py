"""What happens in PyG's own `examples/gcn.py` if only the convolution is replaced?

Two layers, everything else as it is there: 16 hidden channels, dropout of 0.5 before each layer,
Adam with a learning rate of 0.01, weight decay on the first layer only, 200 epochs, and the test
accuracy of the first epoch with the best validation accuracy. Every convolution has its defaults.
A seed draws parameters and dropout, and with `--split random` also 20 labels a class, 500 nodes for
validation and 1,000 for the test.

    python examples/benchmarks/drop_in.py --root data/Planetoid --dataset Cora --conv gcn ours
"""

import argparse
import copy
import time
import warnings
from pathlib import Path

import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.datasets import FakeDataset, Planetoid
from torch_geometric.nn import APPNP, ChebConv, GCNConv, Linear
from torch_geometric.transforms import NormalizeFeatures, RandomNodeSplit

from jsem_pyg.diffusion.filters import Heat, Learned
from jsem_pyg.nn import AnisotropicChebConv, AnisotropicDiffusion
from jsem_pyg.transforms import FormanCurvature

CONVS = ("gcn", "cheb", "appnp", "ours", "ours_curvature", "learned", "times", "gated")
TIMES = [0.5, 1.0, 2.0, 4.0]
COLUMNS = ["validation", "test", "seconds an epoch"]


class PageRankConv(torch.nn.Module):
    """APPNP has no parameters, so that a linear map comes first."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin = Linear(in_channels, out_channels, weight_initializer="glorot")
        self.spread = APPNP(K=10, alpha=0.1)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.spread(self.lin(x), edge_index)


class GatedConv(torch.nn.Module):
    """A linear map, then several times of heat, of which each node takes shares by a gate.

    The gate is that of DAGNN (Liu, Gao and Ji, "Towards deeper graph neural networks", KDD 2020).
    """

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin = Linear(in_channels, out_channels, weight_initializer="glorot")
        self.heat = AnisotropicDiffusion(edge_dim=0, t=TIMES)
        self.score = Linear(out_channels, 1)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        h = self.lin(x)
        scales = torch.cat([h, self.heat(h, edge_index)], dim=-1).unflatten(-1, (-1, h.size(1)))
        return (self.score(scales).sigmoid() * scales).sum(-2)


def make_conv(name: str, in_channels: int, out_channels: int) -> torch.nn.Module:
    if name == "gcn":
        return GCNConv(in_channels, out_channels)
    if name == "cheb":
        return ChebConv(in_channels, out_channels, K=2)
    if name == "appnp":
        return PageRankConv(in_channels, out_channels)
    if name == "gated":
        return GatedConv(in_channels, out_channels)
    options = {
        "ours_curvature": {"edge_dim": 1},
        "learned": {"filter": Learned(10, start=Heat(2.0))},
        "times": {"t": TIMES},
    }
    return AnisotropicChebConv(in_channels, out_channels, **{"edge_dim": 0} | options.get(name, {}))


class Net(torch.nn.Module):
    def __init__(self, conv: str, in_channels: int, hidden: int, out_channels: int) -> None:
        super().__init__()
        self.conv1 = make_conv(conv, in_channels, hidden)
        self.conv2 = make_conv(conv, hidden, out_channels)
        self.edge_args = ["edge_attr"] if conv == "ours_curvature" else []

    def forward(self, data: Data) -> Tensor:
        edges = {name: data[name] for name in self.edge_args}
        x = drop(data.x, self.training)
        x = self.conv1(x, data.edge_index, **edges).relu()
        x = F.dropout(x, 0.5, self.training)
        return self.conv2(x, data.edge_index, **edges)


def drop(x: Tensor, training: bool) -> Tensor:
    """Dropout; of a sparse tensor it is that of the values, since a zero stays zero."""
    if x.layout == torch.strided:
        return F.dropout(x, 0.5, training)
    values = F.dropout(x.values(), 0.5, training)
    return torch.sparse_csr_tensor(
        x.crow_indices(), x.col_indices(), values, x.shape, check_invariants=False
    )


def load(args: argparse.Namespace) -> Data:
    if args.root is None:
        seed_everything(0)
        data = FakeDataset(avg_num_nodes=300, avg_degree=6, num_channels=32, num_classes=4)[0]
        data.x = (data.x - data.x.min()).float()
        data = RandomNodeSplit("random", num_train_per_class=5, num_val=60, num_test=100)(data)
    else:
        data = Planetoid(args.root, args.dataset)[0]
    data = FormanCurvature()(NormalizeFeatures()(data))
    if args.sparse:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
            data.x = data.x.to_sparse_csr()
    return data


def split_at_random(data: Data, seed: int) -> Data:
    """20 labels a class, fewer in small graphs; the same nodes whatever was drawn before."""
    seed_everything(seed)
    sizes = {"num_val": min(500, data.num_nodes // 4), "num_test": min(1000, data.num_nodes // 2)}
    labels = 20 if data.num_nodes > 1000 else 5
    return RandomNodeSplit("random", num_train_per_class=labels, **sizes)(copy.copy(data))


@torch.no_grad()
def accuracies(model: torch.nn.Module, data: Data) -> list[float]:
    model.eval()
    right = model(data).argmax(-1) == data.y
    return [float(right[mask].float().mean()) for mask in (data.val_mask, data.test_mask)]


def run(conv: str, data: Data, seed: int, args: argparse.Namespace) -> dict[str, float]:
    """One training; the seconds are those of the training step alone, as in `gcn.py`."""
    seed_everything(seed)
    model = Net(conv, data.num_features, args.hidden_channels, int(data.y.max()) + 1)
    groups = [
        {"params": model.conv1.parameters(), "weight_decay": 5e-4},
        {"params": model.conv2.parameters(), "weight_decay": 0},
    ]
    optimizer = torch.optim.Adam(groups, lr=args.lr)
    best, test, seconds = 0.0, 0.0, []
    for _ in range(args.epochs):
        start = time.perf_counter()
        model.train()
        optimizer.zero_grad()
        out = model(data)[data.train_mask]
        F.cross_entropy(out, data.y[data.train_mask]).backward()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
        validation, now = accuracies(model, data)
        if validation > best:
            best, test = validation, now
    median = float(torch.tensor(seconds[9:] or seconds).median())
    return dict(zip(COLUMNS, (100 * best, 100 * test, median), strict=True))


def summarize(rows: pd.DataFrame) -> pd.DataFrame:
    """A row a convolution; the difference is to the first one, seed by seed."""
    first = rows[rows["conv"] == rows["conv"].iloc[0]].set_index("seed")
    table = {}
    for conv, group in rows.groupby("conv", sort=False):
        mean, std = group.mean(numeric_only=True), group.std(numeric_only=True)
        entry = {name: f"{mean[name]:.2f} ± {std[name]:.2f}" for name in ("validation", "test")}
        difference = group.set_index("seed")["test"] - first["test"]
        entry["difference"] = f"{difference.mean():+.2f} ± {difference.sem():.2f}"
        entry["seconds an epoch"] = f"{group['seconds an epoch'].median():.4f}"
        table[conv] = entry
    return pd.DataFrame(table).T


def add_rows(path: Path, runs: pd.DataFrame) -> None:
    """Write runs to a CSV file, in place of earlier ones of the same graph, split and seed."""
    kept = [pd.read_csv(path)] if path.exists() else []
    key = ["dataset", "split", "conv", "seed"]
    pd.concat([*kept, runs]).drop_duplicates(key, keep="last").to_csv(path, index=False)


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--conv", nargs="+", default=["gcn", "ours"], choices=CONVS)
    parser.add_argument("--dataset", default="Cora")
    parser.add_argument("--root", help="folder of Planetoid; without it, a graph drawn at random")
    parser.add_argument("--split", default="public", choices=["public", "random"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--hidden_channels", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--sparse", action="store_true", help="sparse features: the same, sooner")
    parser.add_argument("--quick", action="store_true", help="two seeds of ten epochs")
    parser.add_argument("--output", help="a CSV file to which a row a run is added")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    if args.quick:
        args.seeds, args.epochs = 2, 10
    data, rows = load(args), []
    what = {"dataset": args.dataset if args.root else "random graph", "split": args.split}
    for seed in range(args.seeds):
        drawn = split_at_random(data, seed) if args.split == "random" else data
        for conv in args.conv:
            rows.append({**what, "conv": conv, "seed": seed} | run(conv, drawn, seed, args))
    runs = pd.DataFrame(rows)
    if args.output:
        add_rows(Path(args.output), runs)
    table = summarize(runs)
    print(f"{what['dataset']}, {args.split} split")
    print("test and validation accuracy in per cent, mean ± standard deviation over seeds;")
    print(f"difference to {args.conv[0]} in the test, mean ± standard error of the mean\n")
    print(table.to_string())
    return table


if __name__ == "__main__":
    main()
