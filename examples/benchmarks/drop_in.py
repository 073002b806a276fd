"""What happens in PyG's own examples if only the convolution is replaced?

`gcn`: two layers, everything else as it is there: 16 hidden channels, dropout of 0.5 before each
layer, Adam with a learning rate of 0.01, weight decay on the first layer only, 200 epochs, and the
test accuracy of the first epoch with the best validation accuracy. A seed draws parameters and
dropout, and with `--split random` also 20 labels a class, 500 nodes for validation and 1,000 for
the test.

`link_pred` and `autoencoder`: two layers guess which edges of a graph were hidden, 5 % of them for
validation and 10 % for the test. In `link_pred` they have 128 and 64 channels and 100 epochs, and
negative edges are drawn anew in every epoch; in `autoencoder` 32 and 16 channels and 400 epochs,
with PyG's `GAE`. The test score (area under the ROC curve) is that of the epoch with the best
validation score: `link_pred.py` means to take that one and takes the last, `autoencoder.py` prints
all. A seed draws the hidden edges, the parameters and the negative edges. Curvature is measured on
the edges that a layer may see. Every convolution has its defaults.

    python examples/benchmarks/drop_in.py --root data/Planetoid --dataset Cora --conv gcn ours
    python examples/benchmarks/drop_in.py --root data/Planetoid --script link_pred autoencoder
"""

import argparse
import copy
import time
import warnings
from itertools import pairwise, product

import pandas as pd
import torch
import torch.nn.functional as F
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.datasets import FakeDataset, Planetoid
from torch_geometric.nn import APPNP, GAE, ChebConv, GCNConv, Linear
from torch_geometric.transforms import NormalizeFeatures, RandomLinkSplit, RandomNodeSplit
from torch_geometric.utils import negative_sampling

from jsem_pyg.diffusion.filters import Heat, Learned
from jsem_pyg.nn import AnisotropicChebConv
from jsem_pyg.transforms import FormanCurvature

CONVS = ("gcn", "cheb", "appnp", "ours", "ours_curvature", "learned")
LINKS = {"link_pred": (128, 64, 100), "autoencoder": (32, 16, 400)}  # channels, epochs
COLUMNS = ["validation", "test", "seconds an epoch"]


class PageRankConv(torch.nn.Module):
    """APPNP has no parameters, so that a linear map comes first."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.lin = Linear(in_channels, out_channels, weight_initializer="glorot")
        self.spread = APPNP(K=10, alpha=0.1)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.spread(self.lin(x), edge_index)


def make_conv(name: str, in_channels: int, out_channels: int) -> torch.nn.Module:
    if name == "gcn":
        return GCNConv(in_channels, out_channels)
    if name == "cheb":
        return ChebConv(in_channels, out_channels, K=2)
    if name == "appnp":
        return PageRankConv(in_channels, out_channels)
    options = {
        "ours_curvature": {"edge_dim": 1},
        "learned": {"filter": Learned(10, start=Heat(2.0))},
    }
    return AnisotropicChebConv(in_channels, out_channels, **{"edge_dim": 0} | options.get(name, {}))


class Net(torch.nn.Module):
    """Two convolutions; their dropout is that of `gcn.py`, or none."""

    def __init__(self, conv: str, sizes: tuple[int, int, int], dropout: float = 0.0) -> None:
        super().__init__()
        self.conv1, self.conv2 = (make_conv(conv, *pair) for pair in pairwise(sizes))
        self.edge_args = ["edge_attr"] if conv == "ours_curvature" else []
        self.dropout = dropout

    def forward(self, data: Data) -> Tensor:
        edges = {name: data[name] for name in self.edge_args}
        x = drop(data.x, self.dropout, self.training)
        x = self.conv1(x, data.edge_index, **edges).relu()
        x = F.dropout(x, self.dropout, self.training)
        return self.conv2(x, data.edge_index, **edges)


def drop(x: Tensor, p: float, training: bool) -> Tensor:
    """Dropout; of a sparse tensor it is that of the values, since a zero stays zero."""
    if x.layout == torch.strided:
        return F.dropout(x, p, training)
    values = F.dropout(x.values(), p, training)
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


def run_nodes(conv: str, data: Data, seed: int, epochs: int) -> dict[str, float]:
    """One training, in per cent."""
    seed_everything(seed)
    model = Net(conv, (data.num_features, 16, int(data.y.max()) + 1), dropout=0.5)
    best, test, seconds = train_as_gcn(model, data, epochs)
    return dict(zip(COLUMNS, (100 * best, 100 * test, seconds), strict=True))


def train_as_gcn(model: torch.nn.Module, data: Data, epochs: int) -> tuple[float, float, float]:
    """Train conv1 and conv2 as `gcn.py` does: both accuracies at the best validation, and seconds.

    The seconds are those of the training step alone.
    """
    groups = [
        {"params": model.conv1.parameters(), "weight_decay": 5e-4},
        {"params": model.conv2.parameters(), "weight_decay": 0},
    ]
    optimizer = torch.optim.Adam(groups, lr=0.01)
    best, test, seconds = 0.0, 0.0, []
    for _ in range(epochs):
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
    return best, test, float(torch.tensor(seconds[9:] or seconds).median())


def hide_edges(data: Data, seed: int) -> list[Data]:
    """Graphs to train, validate and test on, with the curvature of what each of them shows."""
    seed_everything(seed)
    hide = RandomLinkSplit(0.05, 0.1, is_undirected=True, add_negative_train_samples=False)
    bare = Data(x=data.x, edge_index=data.edge_index)
    return [FormanCurvature()(part) for part in hide(bare)]


def loss_of(script: str, model: GAE, data: Data) -> Tensor:
    z, known = model.encode(data), data.edge_label_index
    if script == "autoencoder":
        return model.recon_loss(z, known)
    size = (data.num_nodes, known.size(1))
    label_index = torch.cat([known, negative_sampling(data.edge_index, *size, "sparse")], dim=1)
    label = (torch.arange(label_index.size(1)) < known.size(1)).to(z.dtype)
    said = model.decode(z, label_index, sigmoid=False)
    return torch.nn.functional.binary_cross_entropy_with_logits(said, label)


@torch.no_grad()
def score(model: GAE, data: Data) -> float:
    model.eval()
    said = model.decode(model.encode(data), data.edge_label_index, sigmoid=False)
    return 100 * float(roc_auc_score(data.edge_label, said))


def run_links(
    script: str, conv: str, parts: list[Data], seed: int, epochs: int
) -> dict[str, float]:
    """One training: the validation score at its best, and the test score there."""
    train, validation, test = parts
    hidden, out_channels, _ = LINKS[script]
    seed_everything(seed)
    model = GAE(Net(conv, (train.num_features, hidden, out_channels)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scores = []
    for _ in range(epochs):
        model.train()
        optimizer.zero_grad()
        loss_of(script, model, train).backward()
        optimizer.step()
        scores.append((score(model, validation), score(model, test)))
    best = max(scores, key=lambda pair: pair[0])
    return dict(zip(("validation", "test"), best, strict=True))


def summarize(runs: pd.DataFrame) -> pd.DataFrame:
    """A row for each script and convolution; differences to the first one, seed by seed."""
    first = runs[runs["conv"] == runs["conv"].iloc[0]].set_index(["script", "seed"])["test"]
    table = []
    for (script, conv), part in runs.groupby(["script", "conv"], sort=False):
        difference = part.set_index(["script", "seed"])["test"] - first
        row = {"script": script, "conv": conv}
        for name in ("validation", "test"):
            row[name] = f"{part[name].mean():.2f} ± {part[name].std():.2f}"
        row["difference"] = f"{difference.mean():+.2f} ± {difference.sem():.2f}"
        if script == "gcn":
            row[COLUMNS[-1]] = round(part[COLUMNS[-1]].median(), 4)
        table.append(row)
    return pd.DataFrame(table)


def main(argv: list[str] | None = None) -> pd.DataFrame:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--script", nargs="+", default=["gcn"], choices=["gcn", *LINKS])
    parser.add_argument("--conv", nargs="+", default=["gcn", "ours"], choices=CONVS)
    parser.add_argument("--dataset", default="Cora")
    parser.add_argument("--root", help="folder of Planetoid; without it, a graph drawn at random")
    parser.add_argument("--split", default="public", choices=["public", "random"], help="of nodes")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--sparse", action="store_true", help="sparse features: the same, sooner")
    parser.add_argument("--quick", action="store_true", help="two seeds of few epochs")
    args = parser.parse_args(argv)
    data, rows = load(args), []
    for seed in range(2 if args.quick else args.seeds):
        drawn = split_at_random(data, seed) if args.split == "random" else data
        parts = hide_edges(data, seed)
        for script, conv in product(args.script, args.conv):
            epochs = 5 if args.quick else LINKS.get(script, (200,))[-1]
            if script == "gcn":
                found = run_nodes(conv, drawn, seed, epochs)
            else:
                found = run_links(script, conv, parts, seed, epochs)
            rows.append({"script": script, "conv": conv, "seed": seed} | found)
    table = summarize(pd.DataFrame(rows))
    print(f"{args.dataset if args.root else 'random graph'}, {args.split} split of nodes")
    print("accuracy, or ROC AUC, in per cent, mean ± standard deviation over seeds;")
    print(f"difference to {args.conv[0]} in the test, mean ± standard error of the mean\n")
    print(table.to_string(index=False))
    return table


if __name__ == "__main__":
    main()
