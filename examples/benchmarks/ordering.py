"""What does an order of the nodes cost, and what does it save on each pass?

The graph is that of the nearest neighbours of random points in four dimensions, its nodes in no
order. For each order: seconds to make it; forward pass and epoch (forward, and backward in x, the
weights and t) by the numba kernel, which leaves it as it is; both as multiples of no order;
the epochs of training after which it has paid for itself; bytes that a term moves, counted; how
many edges a row serves that windows of 16 rows gather once (reuse); and how many rows 16 equal
ranges of it fetch from each other (halo).

Bytes are counted by a model of a cache of 1 MB, in 16 ways, that drops what was used least recently
and half of which is left to the gathered rows (128 bytes of each): those that are not in it, and
beside them what every order reads and writes once, three rows for each node and eight bytes for
each edge. Seconds of the processors are what counts on a machine that has other things to do.

    python examples/benchmarks/ordering.py                     # 200,000 nodes
    python examples/benchmarks/ordering.py --num-nodes 1000000 --repeats 2
    python examples/benchmarks/ordering.py --embeddings 20newsgroups_train_minilm.npz
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numba import njit
from reporting import machine, parser_of, write_table
from scaling import random_edges
from torch import Tensor
from training_epoch import load_points

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.graph import GraphStructure
from jsem_pyg.kernels.bandwidth import bandwidth_order
from jsem_pyg.kernels.ordering import locality_order, new_share
from jsem_pyg.neighbors import knn_graph
from jsem_pyg.partition import recursive_partition

PARTS = 16  # that halos are counted for
ROWS_OF_A_BLOCK = 1024
ROW_BYTES, LINES, WAYS = 128, (1 << 19) // 128, 16


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--num-nodes", type=int, nargs="+", default=[200_000])
    parser.add_argument(
        "--embeddings", type=Path, help=".npz file of points, in place of random ones"
    )
    parser.add_argument("--neighbours", type=int, default=15)
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--degree", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="+", help="names of orders, all of them by default")
    return parser.parse_args(argv)


def document_graph(args: argparse.Namespace) -> GraphStructure:
    points = load_points(args)
    return GraphStructure(knn_graph(points, args.neighbours)[0], len(points))


def orders(structure: GraphStructure) -> dict[str, Callable[[], Tensor]]:
    blocks = max(1, structure.num_nodes // ROWS_OF_A_BLOCK)
    split = partial(recursive_partition, structure)
    return {
        "none": lambda: torch.arange(structure.num_nodes),
        "bandwidth": lambda: bandwidth_order(structure.csr).node,
        "locality": lambda: locality_order(structure.csr).node,
        "metis, 16 parts": lambda: split(PARTS, method="metis").order,
        f"metis, {blocks} parts": lambda: split(blocks, method="metis").order,
        f"bandwidth, {blocks} parts": lambda: split(blocks, method="bandwidth").order,
    }


def permute(structure: GraphStructure, order: Tensor) -> GraphStructure:
    """The graph in another order, which the kernels take for a good one, whatever it is."""
    place = torch.empty(structure.num_nodes, dtype=torch.int64)
    place[order.long()] = torch.arange(structure.num_nodes)
    edge_index = torch.stack([place[each.long()] for each in (structure.row, structure.col)])
    permuted = GraphStructure(edge_index, structure.num_nodes)
    permuted.csr._derived[(new_share,)] = 0.0
    return permuted


@njit
def missed_rows(rowptr: np.ndarray, col: np.ndarray, lines: int, ways: int) -> int:
    """Gathered rows that are not in a cache of so many, in a second pass over the pattern."""
    sets, missed, now = lines // ways, 0, 0
    held, used = np.full((sets, ways), -1), np.zeros((sets, ways), np.int64)
    for _ in range(2):
        missed = 0
        for slot in range(rowptr[-1]):
            row, now = col[slot], now + 1
            place, oldest = row % sets, 0
            for way in range(ways):
                if held[place, way] == row:
                    oldest = -1
                    used[place, way] = now
                    break
                if used[place, way] < used[place, oldest]:
                    oldest = way
            if oldest >= 0:
                missed += 1
                held[place, oldest], used[place, oldest] = row, now
    return missed


def moved_bytes(structure: GraphStructure) -> int:
    missed = missed_rows(structure.rowptr.numpy(), structure.col.numpy(), LINES, WAYS)
    return (missed + 3 * structure.num_nodes) * ROW_BYTES + 8 * structure.num_slots


def halo(structure: GraphStructure) -> float:
    """Rows that equal ranges of the order fetch from each other, of all rows."""
    size = structure.num_nodes
    part = torch.arange(size) * PARTS // size
    row, col = part[structure.row.long()], part[structure.col.long()]
    fetched = row[row != col] * size + structure.col.long()[row != col]
    return torch.unique(fetched).numel() / size


class Clock:
    """Seconds, on the wall and of the processors."""

    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), time.process_time()

    def stop(self) -> tuple[float, float]:
        return time.perf_counter() - self.wall, time.process_time() - self.cpu


def one_pass(structure: GraphStructure, x: Tensor, degree: int) -> tuple[float, float]:
    clock = Clock()
    heat_diffusion(x, structure, torch.ones(structure.num_edges), 5.0, degree=degree)
    return clock.stop()


def one_epoch(structure: GraphStructure, x: Tensor, degree: int) -> tuple[float, float]:
    given = (x.clone(), torch.ones(structure.num_edges), torch.tensor(5.0))
    leaves = [each.requires_grad_() for each in given]
    clock = Clock()
    out = heat_diffusion(leaves[0], structure, *leaves[1:], degree=degree)
    out.backward(torch.ones_like(out))
    return clock.stop()


@njit
def reuse(rowptr: np.ndarray, col: np.ndarray) -> float:
    """Count the edges for each gathered row, if 16 rows in sequence gather every row once."""
    window_of, entries = np.full(rowptr.size - 1, -1), 0
    for row in range(rowptr.size - 1):
        for slot in range(rowptr[row], rowptr[row + 1]):
            entries += window_of[col[slot]] != row // 16
            window_of[col[slot]] = row // 16
    return col.size / max(entries, 1)


def measure(structure: GraphStructure, args: argparse.Namespace) -> list[dict]:
    num_nodes = structure.num_nodes
    x = torch.randn(num_nodes, args.channels, generator=torch.Generator().manual_seed(0))
    graphs, rows = {}, {}
    for name, make in orders(structure).items():
        if args.only is None or name in ("none", *args.only):
            clock = Clock()
            order = make()
            to_order = clock.stop()[1]
            graphs[name] = permute(structure, order)
            rows[name] = {"N": num_nodes, "order": name, "to order cpu s": to_order}
            rows[name] |= {"MB a term": moved_bytes(graphs[name]) / 1e6}
            rows[name] |= {
                "reuse": reuse(graphs[name].csr.rowptr.numpy(), graphs[name].csr.col.numpy())
            }
            rows[name] |= {f"halo of {PARTS}": halo(graphs[name])}
    best = {name: np.full((2, 2), np.inf) for name in graphs}
    for repeat in range(args.repeats + 1):  # in turn, since the machine has other things to do
        for name, graph in graphs.items():
            if repeat == 0:
                one_epoch(graph, x[:, :1], args.degree)  # warm-up
                continue
            for at, run in enumerate((one_pass, one_epoch)):
                best[name][at] = np.minimum(best[name][at], run(graph, x, args.degree))
    for name, (forward, epoch) in best.items():
        rows[name] |= {"forward s": forward[0], "epoch s": epoch[0]}
        rows[name] |= {"forward cpu s": forward[1], "epoch cpu s": epoch[1]}
        rows[name] |= {"forward x": best["none"][0, 1] / forward[1]}
        rows[name] |= {"epoch x": best["none"][1, 1] / epoch[1]}
        saved = best["none"][1, 1] - epoch[1]
        rows[name]["paid after"] = rows[name]["to order cpu s"] / saved if saved > 0 else np.nan
        print(", ".join(f"{key} = {value}" for key, value in rows[name].items()), flush=True)
    return list(rows.values())


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    sizes = args.num_nodes
    graphs = (GraphStructure(random_edges(size, args.neighbours), size) for size in sizes)
    if args.embeddings is not None:
        graphs = (document_graph(args) for _ in range(1))
    table = pd.DataFrame([row for graph in graphs for row in measure(graph, args)])
    write_table(table, args.output, "ordering", [f"{machine()}, float32"])
    return table


if __name__ == "__main__":
    main()
