"""How long does the Forman-Ricci curvature of every edge take, and how does it grow?

First on the neighbour graph of embeddings, against GraphRicciCurvature 0.6.1, whose answers are the
check: every edge within 1e-6. Then on the graphs of the 15 nearest neighbours of random points in
four dimensions, up to as many as asked, sorted as `knn_graph` returns them, with peak memory
(resident, beyond that before the call) and the exponent of time in the number of edges. Times are
medians; GraphRicciCurvature, which gets its networkx graph ready made, is timed once.

    python examples/benchmarks/curvature.py --embeddings 20newsgroups_train_minilm.npz
    python examples/benchmarks/curvature.py --max-nodes 1000000
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import networkx as nx
import pandas as pd
import torch
from GraphRicciCurvature.FormanRicci import FormanRicci
from reporting import PeakMemory, exponent, machine, medians, parser_of, write_table
from scaling import random_structure
from torch import Tensor
from torch_geometric.utils import coalesce
from training_epoch import load_points

from jsem_pyg.curvature import forman_curvature
from jsem_pyg.curvature.forman_ricci import METHODS
from jsem_pyg.neighbors import knn_graph

SIZES = [10_000, 30_000, 100_000, 300_000, 1_000_000]


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--embeddings", type=Path, help=".npz file of points x [N, D]")
    parser.add_argument("--num-points", type=int, default=11_314, help="of random points")
    parser.add_argument("--channels", type=int, default=384, help="of random points")
    parser.add_argument("--k", type=int, default=15)
    parser.add_argument("--max-nodes", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=7)
    return parser.parse_args(argv)


def median_time(call: Callable[[], Tensor], repeats: int) -> float:
    return medians({"this": call}, repeats, time.perf_counter)["this"]


def peer(edge_index: Tensor, weight: Tensor, num_nodes: int, method: str) -> tuple[Tensor, float]:
    """GraphRicciCurvature: its answers [E] and seconds."""
    graph = nx.Graph()
    graph.add_nodes_from(range(num_nodes))
    edges = zip(*edge_index.tolist(), weight.double().tolist(), strict=True)
    graph.add_weighted_edges_from(edge for edge in edges if edge[0] < edge[1])
    ricci = FormanRicci(graph, method=method, verbose="ERROR")
    started = time.perf_counter()
    ricci.compute_ricci_curvature()
    seconds = time.perf_counter() - started
    pairs = zip(*edge_index.tolist(), strict=True)
    return torch.tensor([ricci.G[i][j]["formanCurvature"] for i, j in pairs]), seconds


def compare(x: Tensor, args: argparse.Namespace) -> pd.DataFrame:
    edge_index, weight = knn_graph(x, args.k)
    rows = []
    for method in METHODS:
        expected, baseline = peer(edge_index, weight, x.size(0), method)
        row = {"method": method, "N": x.size(0), "edges": edge_index.size(1) // 2}
        rows.append({**row, "way": "GraphRicciCurvature", "s": baseline, "ratio": 1.0})
        ours = partial(forman_curvature, edge_index, weight, x.size(0), method)
        curvature, seconds = ours(), median_time(ours, args.repeats)
        error = float((curvature - expected).abs().max())
        if not error <= 1e-6 * max(1.0, float(expected.abs().max())):
            raise AssertionError(f"{method}: differs by {error:.2g}.")
        rows.append({**row, "way": "ours", "s": seconds, "ratio": baseline / seconds})
    return pd.DataFrame(rows)


def grow(args: argparse.Namespace) -> pd.DataFrame:
    rows = []
    for size in (size for size in SIZES if size <= args.max_nodes):
        edge_index = coalesce(torch.stack(random_structure(size).edges))
        for method in METHODS:
            memory = PeakMemory()
            forman_curvature(edge_index, None, size, method)
            gigabytes = memory.stop() / 1e9
            repeats = args.repeats if size < 300_000 else 1
            seconds = median_time(
                partial(forman_curvature, edge_index, None, size, method), repeats
            )
            row = {"method": method, "N": size, "edges": edge_index.size(1) // 2}
            rows.append({**row, "s": seconds, "peak GB": gigabytes})
            print(rows[-1], flush=True)
    return pd.DataFrame(rows)


def main(argv: list[str] | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    args = parse_args(argv)
    compared = compare(load_points(args), args)
    write_table(compared, args.output, "curvature_ratio", [machine()])
    grown = grow(args)
    if grown.empty:
        return compared, grown
    notes = [machine()]
    for method, rows in grown.groupby("method"):
        if len(rows) > 1:
            slope = exponent(rows["edges"], rows["s"])
            notes.append(f"exponent of time in edges, {method}: {slope:.2f}")
    write_table(grown, args.output, "curvature_scaling", notes)
    return compared, grown


if __name__ == "__main__":
    main()
