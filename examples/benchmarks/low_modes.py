"""The 16 smoothest modes of a neighbour graph: `low_modes` beside SciPy's `eigsh`, in CPU seconds.

Graphs join each of N random points of the unit square or cube to its 15 nearest; nodes are in
random order. `eigsh` (Lanczos, which="LA") gets I - L with the residual that ours reached as its
tolerance, and the same start in every run. Both run on one thread, one after the other, so that
other work on the machine disturbs CPU seconds little. Residuals are the largest
||L v - lambda v|| over the modes, relative to the last eigenvalue. Preparing the graph is counted
on both sides: a `GraphStructure`, a normalised CSR matrix.

    OMP_NUM_THREADS=1 python examples/benchmarks/low_modes.py                      # a minute or two
    OMP_NUM_THREADS=1 python examples/benchmarks/low_modes.py --sizes 1000000 --dims 3
    python examples/benchmarks/low_modes.py --sizes 1000000 --threads 2 --scipy-up-to 0
"""

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from reporting import machine, write_table
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import eigsh
from scipy.spatial import cKDTree

from jsem_pyg.diffusion import low_modes


def neighbour_graph(size: int, dim: int, k: int = 15) -> np.ndarray:
    """Edges [2, E] of N points, both directions."""
    x = np.random.default_rng(0).random((size, dim))
    nearest = cKDTree(x).query(x, k + 1, workers=-1)[1][:, 1:].ravel()
    node = np.repeat(np.arange(size), k)
    keys = np.unique(np.concatenate([node * size + nearest, nearest * size + node]))
    return np.stack([keys // size, keys % size])


def transitions(edges: np.ndarray, size: int) -> csr_array:
    """S = D^(-1/2) W D^(-1/2)."""
    adjacency = csr_array((np.ones(edges.shape[1]), tuple(edges.astype(np.int32))), (size, size))
    scale = diags_array(adjacency.sum(1) ** -0.5)
    return csr_array(scale @ adjacency @ scale)


def residual(matrix: csr_array, value: np.ndarray, mode: np.ndarray) -> float:
    """The largest of the modes, relative to the last eigenvalue of I - S."""
    error = np.linalg.norm(mode - matrix @ mode - mode * value, axis=0)
    return float(error.max() / value[-1])


def compare(size: int, dim: int, k: int, with_scipy: bool) -> list[dict[str, object]]:
    """A row for each way."""
    edges = neighbour_graph(size, dim)
    edge_index, weight = torch.from_numpy(edges), torch.ones(edges.shape[1], dtype=torch.float64)
    wall, cpu = time.perf_counter(), time.process_time()
    value, mode = (each.numpy() for each in low_modes(edge_index, k, weight))
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    case = {"nodes": size, "dimensions": dim}
    matrix = transitions(edges, size)
    reached = residual(matrix, value, mode)
    ours = {"CPU s": cpu, "wall s": wall, "residual": reached, "last eigenvalue": value[-1]}
    rows = [case | {"way": "low_modes"} | ours | {"ratio": 1.0}]
    print(rows[-1], flush=True)
    if with_scipy:
        wall, cpu = time.perf_counter(), time.process_time()
        start = np.random.default_rng(0).standard_normal(size)
        tol = reached * value[-1]
        top, found = eigsh(transitions(edges, size), k, which="LA", v0=start, tol=tol)
        spent, wall = time.process_time() - cpu, time.perf_counter() - wall
        lowest, found = 1 - top[::-1], found[:, ::-1]
        theirs = {"CPU s": spent, "wall s": wall, "residual": residual(matrix, lowest, found)}
        theirs |= {"last eigenvalue": lowest[-1], "ratio": spent / rows[0]["CPU s"]}
        rows.append(case | {"way": "eigsh"} | theirs)
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Time both ways on graphs of each size and dimension."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--dims", type=int, nargs="+", default=[2, 3])
    parser.add_argument("-k", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--scipy-up-to", type=int, default=1_000_000, help="nodes")
    parser.add_argument("--output", type=Path, default=Path("examples/results"), help="a folder")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    low_modes(torch.from_numpy(neighbour_graph(25_000, 2)), 4)  # compiles the kernels
    rows = [
        row
        for size in given.sizes
        for dim in given.dims
        for row in compare(size, dim, given.k, size <= given.scipy_up_to)
    ]
    notes = [f"The {given.k} smoothest modes: `examples/benchmarks/low_modes.py` on {machine()}."]
    write_table(pd.DataFrame(rows), given.output, "low_modes", notes)


if __name__ == "__main__":
    main()
