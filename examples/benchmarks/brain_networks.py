"""Does heat on the wiring of a brain tell which regions are active together?

Structure is a graph of regions joined by fibres; function is how strongly the activity of two
regions goes together. The heat kernel of the structure, stretched to fit, predicts function. Its
time and the conductance of the edges are fitted on one map of the brain (100 regions) and applied
to maps with other regions, whose function only scores. A tenth of the regions stops the training.

    python examples/benchmarks/brain_networks.py  # a small made-up brain, seconds
    python examples/benchmarks/brain_networks.py --data hcp_connectomes.npz  # group means, seconds

A file has `sc_P`, `fc_P` [N, N] and `labels_P` [N] for each map P. What came out is in
`examples/results/brain_networks.md`.
"""

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch_geometric import seed_everything
from torch_geometric.data import Data

from jsem_pyg.nn import AnisotropicDiffusion
from jsem_pyg.training import fit
from jsem_pyg.transforms import FormanCurvature

MAPS = ["schaefer_100", "schaefer_200", "schaefer_300", "schaefer_400", "glasser_360", "aparc_68"]
TIMES = [0.3, 1.0, 3.0]


def read(path: Path, name: str) -> Data:
    """Read a map of the brain; a region belongs to the right hemisphere if its name says so."""
    with np.load(path) as file:
        structure, function, labels = (file[f"{kind}_{name}"] for kind in ("sc", "fc", "labels"))
    right = [any(mark in f"_{label}_" for mark in ("_RH_", "R_", "rh_")) for label in labels]
    return brain(torch.from_numpy(structure), torch.from_numpy(function), torch.tensor(right))


def made_up(num_regions: int, seed: int) -> Data:
    """Make two hemispheres; fibres between them conduct a twentieth of the others."""
    g = torch.Generator().manual_seed(seed)
    place = torch.rand(num_regions // 2, 2, generator=g).repeat(2, 1)
    right = torch.arange(num_regions) >= num_regions // 2
    distance = torch.cdist(place, place)
    is_crossing = right[:, None] != right
    near = distance < (2.5 / num_regions**0.5)
    structure = (near & ~torch.eye(num_regions, dtype=torch.bool)).float()
    rate = structure * torch.where(is_crossing, 0.05, 1.0)
    root = rate.sum(1).rsqrt()
    laplacian = torch.eye(num_regions) - root[:, None] * rate * root
    function = torch.matrix_exp(-4 * laplacian)
    noise = torch.randn(function.shape, generator=g)
    return brain(structure, function + 0.02 * function.std() * (noise + noise.T), right)


def brain(structure: Tensor, function: Tensor, right: Tensor) -> Data:
    """Make a graph: x are the regions themselves [N, N], y is their function [N, N]."""
    row, col = (structure > 0).nonzero().T
    graph = Data(
        x=torch.eye(len(structure)), y=function.float(), edge_index=torch.stack([row, col])
    )
    graph.edge_weight = structure[row, col].float()
    graph = FormanCurvature()(graph)
    crossing = (right[row] != right[col]).float()
    weight = graph.edge_weight
    columns = [
        graph.edge_attr[:, 0],
        (weight - weight.mean()) / weight.std().clamp(min=1e-6),
        (crossing - crossing.mean()) / crossing.std().clamp(min=1e-6),
    ]
    graph.edge_attr = torch.stack(columns, 1)
    return graph


class Function(nn.Module):
    """The heat kernel [N, N] between regions, stretched."""

    def __init__(self, edge_dim: int) -> None:
        super().__init__()
        self.heat = AnisotropicDiffusion(edge_dim)
        self.stretch, self.shift = nn.Parameter(torch.full((), 0.01)), nn.Parameter(torch.zeros(()))

    def forward(
        self, x: Tensor, edge_index: Tensor, edge_weight: Tensor, edge_attr: Tensor | None = None
    ) -> Tensor:
        kernel = self.heat(x, edge_index, edge_weight, edge_attr)
        return self.stretch * len(x) * kernel + self.shift


def without_features(graph: Data, is_learned: bool) -> Data:
    if is_learned:
        return graph
    graph = graph.clone()
    del graph.edge_attr
    return graph


@torch.no_grad()
def score(model: Function, graph: Data) -> float:
    """Correlate what the model predicts with function, over all pairs of different regions."""
    data = without_features(graph, model.heat.edge_dim > 0)
    predicted = model(data.x, data.edge_index, data.edge_weight, data.get("edge_attr"))
    pairs = torch.triu_indices(len(graph.y), len(graph.y), 1).unbind()
    return float(torch.corrcoef(torch.stack([predicted[pairs], graph.y[pairs]]))[0, 1])


def main(argv: list[str] | None = None) -> pd.DataFrame:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="a file; made-up brains if omitted")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=150)
    args = parser.parse_args(argv)
    if args.data:
        graphs = {name: read(args.data, name) for name in MAPS}
    else:
        graphs = {f"made up, {n} regions": made_up(n, n) for n in (100, 200, 300)}
    first = next(iter(graphs.values()))
    options = {"loss": "signal", "epochs": args.epochs, "times": TIMES, "progress": False}
    options["mask"] = ~torch.eye(len(first.x), dtype=torch.bool)  # pairs of different regions
    rows: dict[str, list[dict[str, float]]] = {"heat, every edge alike": []}
    rows["heat, learned conductance"] = []
    for seed in range(args.seeds):
        for name, runs in rows.items():
            seed_everything(seed)
            is_learned = "learned" in name
            model = Function(first.edge_attr.size(1) if is_learned else 0)
            data = without_features(first, is_learned)
            fit(model, data, seed=seed, **options)
            runs.append({key: score(model, graph) for key, graph in graphs.items()})
    table = pd.DataFrame(
        {
            name: pd.DataFrame(runs).agg(["mean", "std"]).round(3).stack()
            for name, runs in rows.items()
        }
    )
    print(f"Correlation with function, fitted on {next(iter(graphs))}; {args.seeds} seeds\n")
    print(table.unstack(0).to_string())
    return table


if __name__ == "__main__":
    main()
