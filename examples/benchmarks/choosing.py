"""How much does it matter which t, and how many neighbours k?

Two tables, each scored by labels that nothing else looks at: k-means after isotropic heat for each
time, and for each k the clusters that a `DiffusionClassifier` finds by itself, beside the
modularity of these on their graph and the share of neighbours with the same class. Both are in
`docs/choosing.md`.

    python examples/benchmarks/choosing.py                                # digits, no file needed
    python examples/benchmarks/choosing.py --embeddings embeddings.npz    # with x [N, D] and y [N]
"""

import argparse
from pathlib import Path

import pandas as pd
from reporting import parser_of, write_table
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.utils import homophily

from jsem_pyg.datasets import DigitsDataset, EmbeddingDataset
from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.evaluation import clustering_scores, modularity, partition_scores
from jsem_pyg.nn import DiffusionClassifier
from jsem_pyg.training import fit
from jsem_pyg.transforms import FaissKNNGraph


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--embeddings", type=Path, help=".npz file of x [N, D] and y [N]")
    parser.add_argument("--times", type=float, nargs="+", default=[0, 0.5, 2, 5, 20, 50])
    parser.add_argument("--k", type=int, nargs="+", default=[5, 10, 15, 20, 30])
    parser.add_argument("--seeds", type=int, default=3, help="of k-means")
    return parser.parse_args(argv)


def load(args: argparse.Namespace) -> Data:
    """Points with labels."""
    root = args.output / "datasets"
    if args.embeddings is None:
        return DigitsDataset(root)[0]
    return EmbeddingDataset(root, args.embeddings)[0]


def compare_times(data: Data, times: list[float], seeds: int) -> pd.DataFrame:
    """The ARI of k-means after isotropic heat, for each time."""
    graph, rows = FaissKNNGraph()(data), []
    for t in times:
        z = heat_diffusion(graph.x, graph.edge_index, graph.edge_weight, t)
        rows.append({"t": t, "ARI": clustering_scores(z, graph.y, seeds=range(seeds)).ari})
    return pd.DataFrame(rows)


def compare_neighbours(data: Data, numbers: list[int]) -> pd.DataFrame:
    """What a classifier that trains itself finds on graphs of k neighbours, for each k."""
    rows = []
    for k in numbers:
        graph = FaissKNNGraph(k)(data)
        seed_everything(0)
        model = DiffusionClassifier(graph.num_features, int(data.y.max()) + 1)
        fit(model, graph)
        p = model(graph.x, graph.edge_index, graph.edge_weight)
        row = {"k": k, "ARI": partition_scores(p.argmax(-1), graph.y).ari}
        row["modularity"] = modularity(graph.edge_index, graph.edge_weight, p.argmax(-1))
        row["purity"] = homophily(graph.edge_index, graph.y, method="node")
        rows.append(row)
    return pd.DataFrame(rows)


def main(argv: list[str] | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    args = parse_args(argv)
    data = load(args)
    by_time = compare_times(data, args.times, args.seeds)
    by_k = compare_neighbours(data, args.k)
    name = "digits" if args.embeddings is None else args.embeddings.stem
    write_table(by_time, args.output, f"times_{name}", [f"{name}, k = 15, {args.seeds} seeds"])
    write_table(by_k, args.output, f"neighbours_{name}", [f"{name}, one seed"])
    return by_time, by_k


if __name__ == "__main__":
    main()
