"""PyG's `examples/gcn.py` with a model of jsem_pyg's layers in place of `GCN`.

    python examples/pyg_gcn.py --dataset Cora

The only other change: the graph gets both directions of every edge and no loops, which diffusion
needs; both transforms are PyG's. `--root` is where PyG keeps, or downloads, the data set.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import torch_geometric.transforms as T
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.datasets import Planetoid
from torch_geometric.logging import log
from torch_geometric.nn.models.basic_gnn import BasicGNN

from jsem_pyg.nn import AnisotropicChebConv


class AnisotropicGNN(BasicGNN):
    """Layers of `AnisotropicChebConv`; `act`, `norm`, `dropout` and `jk` are PyG's."""

    supports_edge_weight = True
    supports_edge_attr = True
    supports_norm_batch = True

    def init_conv(self, in_channels: int, out_channels: int, **kwargs: Any) -> AnisotropicChebConv:
        return AnisotropicChebConv(in_channels, out_channels, **kwargs)


def train(model: torch.nn.Module, data: Data, optimizer: torch.optim.Optimizer) -> float:
    model.train()
    optimizer.zero_grad()
    out = model(data.x, data.edge_index)
    loss = F.cross_entropy(out[data.train_mask], data.y[data.train_mask])
    loss.backward()
    optimizer.step()
    return loss.item()


@torch.no_grad()
def test(model: torch.nn.Module, data: Data) -> list[float]:
    model.eval()
    right = model(data.x, data.edge_index).argmax(dim=-1) == data.y
    return [float(right[mask].float().mean()) for mask in masks(data)]


def masks(data: Data) -> tuple[torch.Tensor, ...]:
    return data.train_mask, data.val_mask, data.test_mask


def run(data: Data, num_classes: int, args: argparse.Namespace) -> float:
    """Train, and return the test accuracy of the epoch with the best validation accuracy."""
    seed_everything(args.seed)
    model = AnisotropicGNN(
        *(data.num_features, args.hidden_channels, 2, num_classes), dropout=0.5, edge_dim=0
    )
    optimizer = torch.optim.Adam(
        [
            {"params": model.convs[0].parameters(), "weight_decay": 5e-4},
            {"params": model.convs[1].parameters(), "weight_decay": 0},
        ],
        lr=args.lr,
    )
    best_val = test_acc = 0.0
    times = []
    for epoch in range(1, args.epochs + 1):
        start = time.time()
        loss = train(model, data, optimizer)
        train_acc, val_acc, tmp_test_acc = test(model, data)
        if val_acc > best_val:
            best_val, test_acc = val_acc, tmp_test_acc
        log(Epoch=epoch, Loss=loss, Train=train_acc, Val=val_acc, Test=test_acc)
        times.append(time.time() - start)
    print(f"Median time per epoch: {torch.tensor(times).median():.4f}s")
    return test_acc


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path("data/Planetoid"))
    parser.add_argument("--dataset", default="Cora")
    parser.add_argument("--hidden_channels", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> float:
    args = parse_args(argv)
    transform = T.Compose([T.NormalizeFeatures(), T.RemoveSelfLoops(), T.ToUndirected()])
    dataset = Planetoid(str(args.root), args.dataset, transform=transform)
    return run(dataset[0], dataset.num_classes, args)


if __name__ == "__main__":
    print(f"Test accuracy: {main():.3f}")
