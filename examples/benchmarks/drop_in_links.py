"""What happens in PyG's own scripts that guess edges if only the convolution is replaced?

They are `examples/link_pred.py` and `examples/autoencoder.py`: two layers guess which edges of a
graph were hidden, 5 % of them for validation and 10 % for the test. In `link_pred` they have 128
and 64 channels and 100 epochs, and negative edges are drawn anew in every epoch; in `autoencoder`
they have 32 and 16 channels and 400 epochs, with PyG's `GAE`. Everything else is as it is there,
and every convolution has its defaults. The test score (area under the ROC curve) is that of the
epoch with the best validation score: `link_pred.py` means to take that one and takes the last,
`autoencoder.py` prints all. A seed draws the hidden edges, the parameters and the negative edges.
Curvature is measured on the edges that a layer may see.

    python examples/benchmarks/drop_in_links.py --root data/Planetoid --dataset Cora --conv gcn ours
"""

import argparse

import pandas as pd
import torch
from drop_in import CONVS, load, make_conv
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.nn import GAE
from torch_geometric.transforms import RandomLinkSplit
from torch_geometric.utils import negative_sampling

from jsem_pyg.transforms import FormanCurvature

SCRIPTS = {"link_pred": (128, 64, 100), "autoencoder": (32, 16, 400)}  # channels, epochs


class Encoder(torch.nn.Module):
    def __init__(self, conv: str, in_channels: int, hidden: int, out_channels: int) -> None:
        super().__init__()
        self.conv1 = make_conv(conv, in_channels, hidden)
        self.conv2 = make_conv(conv, hidden, out_channels)
        self.edge_args = ["edge_attr"] if conv == "ours_curvature" else []

    def forward(self, data: Data) -> Tensor:
        edges = {name: data[name] for name in self.edge_args}
        x = self.conv1(data.x, data.edge_index, **edges).relu()
        return self.conv2(x, data.edge_index, **edges)


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


def run(script: str, conv: str, parts: list[Data], seed: int, epochs: int) -> dict[str, float]:
    """One training: the validation score at its best, and the test score there."""
    train, validation, test = parts
    hidden, out_channels, _ = SCRIPTS[script]
    seed_everything(seed)
    model = GAE(Encoder(conv, train.num_features, hidden, out_channels))
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
    test = runs.pivot_table(index="seed", columns=["script", "conv"], values="test", sort=False)
    table = {}
    for script, conv in test.columns:
        of_run = test[script, conv]
        difference = of_run - test[script, runs["conv"].iloc[0]]
        table[script, conv] = {
            "test": f"{of_run.mean():.2f} ± {of_run.std():.2f}",
            "difference": f"{difference.mean():+.2f} ± {difference.sem():.2f}",
        }
    return pd.DataFrame(table).T


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--script", nargs="+", default=list(SCRIPTS), choices=list(SCRIPTS))
    parser.add_argument("--conv", nargs="+", default=["gcn", "ours"], choices=CONVS)
    parser.add_argument("--dataset", default="Cora")
    parser.add_argument("--root", help="folder of Planetoid; without it, a graph drawn at random")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--sparse", action="store_true", help="sparse features: the same, sooner")
    parser.add_argument("--quick", action="store_true", help="two seeds of three epochs")
    parser.add_argument("--output", help="a CSV file for a row a run")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    data, rows = load(args), []
    for seed in range(2 if args.quick else args.seeds):
        parts = hide_edges(data, seed)
        for script in args.script:
            epochs = 3 if args.quick else SCRIPTS[script][-1]
            for conv in args.conv:
                scores = run(script, conv, parts, seed, epochs)
                rows.append({"script": script, "conv": conv, "seed": seed} | scores)
    runs = pd.DataFrame(rows)
    if args.output:
        runs.to_csv(args.output, index=False)
    table = summarize(runs)
    print(f"{args.dataset if args.root else 'random graph'}: test ROC AUC in per cent, mean ±")
    print(f"standard deviation over seeds; difference to {args.conv[0]} ± its standard error\n")
    print(table.to_string())
    return table


if __name__ == "__main__":
    main()
