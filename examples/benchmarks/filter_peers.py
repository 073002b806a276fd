"""Filters beside libraries for other jobs: pygsp, scikit-network, torch-ppr and PyG's GDC.

The heat filter of a signal, and personalised PageRank of sixteen nodes, on the neighbour graph of a
data set: the same numbers, each by what its library has for it, with what it prepares done before.
One thread, all in turn, in seconds of the processor. Libraries that are not installed are named on
the page; GDC's exact way inverts a dense matrix, for graphs of a few thousand nodes.

    python examples/benchmarks/filter_peers.py --embeddings 20newsgroups_train_minilm.npz
"""

import logging
import warnings
from argparse import Namespace
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from filters import ALPHA, TIME, load_points, medians, parse_args
from reporting import machine, write_table
from torch import Tensor
from torch_geometric.transforms import GDC

from jsem_pyg.diffusion import diffuse, expm_multiply
from jsem_pyg.diffusion.filters import PersonalizedPageRank
from jsem_pyg.graph import GraphStructure, knn_graph
from jsem_pyg.operators import laplacian_operator

SOURCES = 16
DENSE = 3000  # nodes, the most that are inverted
LIBRARIES = ("pygsp", "scikit-network", "torch-ppr")
Calls = dict[str, Callable[[], Tensor]]


def heat(x: Tensor, structure: GraphStructure, adjacency: scipy.sparse.csr_array) -> Calls:
    """exp(-t L) x for the normalised Laplacian."""
    operator, columns = laplacian_operator(structure), x.numpy().astype(np.float64)
    calls: Calls = {"ours": lambda: diffuse(x, operator, TIME)}
    degree = adjacency.sum(1) ** -0.5
    minus_l = TIME * (adjacency * degree[:, None] * degree - scipy.sparse.eye_array(len(x)))
    minus_l = scipy.sparse.csr_array(minus_l)
    bare = "our expm_multiply, from bare SciPy"
    calls[bare] = lambda: torch.from_numpy(expm_multiply(minus_l, columns))
    with suppress(ImportError):
        import pygsp

        graph = pygsp.graphs.Graph(adjacency)
        graph.compute_laplacian("normalized")
        graph.estimate_lmax()
        made = pygsp.filters.Filter(graph, lambda value: np.exp(-TIME * value))
        calls["pygsp, 30 terms"] = lambda: torch.from_numpy(
            made.filter(columns, method="chebyshev", order=30)
        )
    return calls


def page_rank(x: Tensor, structure: GraphStructure, adjacency: scipy.sparse.csr_array) -> Calls:
    """Where random walks that restart at a node are, a column for each node."""
    size, nodes = len(x), torch.arange(SOURCES)
    degree = torch.from_numpy(adjacency.sum(1)).float().unsqueeze(1)
    operator = laplacian_operator(structure, normalization="rw")
    start = torch.zeros(size, SOURCES)
    start[nodes, nodes] = 1 / degree[:SOURCES, 0]
    ours = PersonalizedPageRank(ALPHA)
    calls: Calls = {"ours": lambda: degree * diffuse(start, operator, ours)}
    edge_index = torch.stack(structure.edges)
    with suppress(ImportError):
        import torch_ppr

        logging.getLogger("torch_max_mem").setLevel(logging.ERROR)
        # Its default stops when a step changes less than 1e-4, at an error of some 1e-3.
        options = {"alpha": ALPHA, "epsilon": 1e-7, "batch_size": SOURCES, "device": "cpu"}
        calls["torch-ppr"] = lambda: (
            torch_ppr.personalized_page_rank(edge_index=edge_index, indices=nodes, **options).T
        )
    with suppress(ImportError):
        from sknetwork.ranking import PageRank

        ranker = PageRank(1 - ALPHA, solver="piteration", n_iter=1000, tol=1e-7)
        matrix = scipy.sparse.csr_matrix(adjacency)
        calls["scikit-network"] = lambda: torch.from_numpy(
            np.stack(
                [ranker.fit_predict(matrix, weights={each: 1.0}) for each in range(SOURCES)], 1
            )
        )
    if size <= DENSE:
        gdc = GDC(self_loop_weight=None, normalization_in="col", normalization_out=None)
        index, weight = gdc.transition_matrix(
            edge_index, torch.ones(edge_index.size(1)), size, "col"
        )
        calls["PyG GDC, exact, of all nodes"] = lambda: gdc.diffusion_matrix_exact(
            index, weight, size, method="ppr", alpha=ALPHA
        )[:, nodes]
    return calls


def compare(x: Tensor, k: int, repeats: int) -> pd.DataFrame:
    edge_index, _ = knn_graph(x, k)
    edge_index = torch.cat([edge_index, edge_index.flip(0)], 1).unique(dim=1)
    structure = GraphStructure(edge_index, len(x))
    ones = np.ones(edge_index.size(1))
    adjacency = scipy.sparse.csr_array((ones, edge_index.numpy()), (len(x), len(x)))
    rows = []
    for part, calls in (
        (f"heat, t = {TIME:g}", heat(x, structure, adjacency)),
        (f"PageRank of {SOURCES} nodes", page_rank(x, structure, adjacency)),
    ):
        seconds, exact = medians(calls, repeats), calls["ours"]().double()
        for name, call in calls.items():
            error = float((call().double() - exact).norm() / exact.norm())
            rows.append((part, name, seconds[name], seconds[name] / seconds["ours"], error))
    names = ["what", "way", "s", "times as long as ours", "relative difference"]
    return pd.DataFrame(rows, columns=names)


def notes(args: Namespace, x: Tensor, table: pd.DataFrame) -> list[str]:
    ran = " ".join(table["way"])
    missing = [name for name in LIBRARIES if name not in ran]
    left_out = f" Not installed: {', '.join(missing)}." if missing else ""
    if "GDC" not in ran:
        left_out += f" GDC's exact way is left out: it inverts a dense matrix of {len(x):,} rows."
    return [
        "# Filters beside libraries for other jobs",
        f"`python examples/benchmarks/filter_peers.py`: {len(x):,} points of {x.size(1)} channels, "
        f"graph of {args.k} neighbours, medians of {args.repeats} calls in turn, in seconds of the "
        f"processor; PageRank restarts with probability {ALPHA}. Differences are from ours, in "
        f"float32 to 1e-6.{left_out} {machine()}.",
    ]


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        x = load_points(args)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the libraries
            table = compare(x, args.k, args.repeats)
        write_table(table, args.output, "filter_peers", notes(args, x, table))
    finally:
        torch.set_num_threads(threads)
    return table


if __name__ == "__main__":
    main()
