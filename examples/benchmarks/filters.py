"""How fast are filters, beside the layers and functions that people use for the same?

The neighbour graph of a data set; one thread, all in turn, in seconds of the processor.
APPNP(K=10) is compared with a filter that gives the same numbers: its polynomial of degree ten.
pygsp, scikit-network, torch-ppr, ott-jax and pyg_spectral (gdmnl/Spectral-GNN-Benchmark) are
measured where they are installed (the last is on GitHub alone: `pip install --no-deps` of a clone);
graphs, bounds and operators that they keep are made once.

    python examples/benchmarks/filters.py                # a small random cloud
    python examples/benchmarks/filters.py --embeddings 20newsgroups_train_minilm.npz \
        --output examples/results
"""

import argparse
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse
import torch
from reporting import machine, medians, parser_of, write_table
from scipy.sparse.linalg import expm_multiply as scipy_expm_multiply
from torch import Tensor
from torch_geometric.nn import APPNP, ChebConv, SSGConv
from torch_geometric.transforms import GDC
from training_epoch import load_points

from jsem_pyg.diffusion import diffuse, expm_multiply
from jsem_pyg.diffusion.filters import Filter, FromFunction, PersonalizedPageRank
from jsem_pyg.graph import GraphStructure
from jsem_pyg.neighbors import knn_graph
from jsem_pyg.operators import laplacian_operator

ALPHA, STEPS, TIME, DEGREE = 0.1, 10, 5.0, 30
COLUMNS = ["what", "way", "s", "times as fast", "as", "relative difference"]
RESTARTS, GDC_NODES = 64, 2000  # nodes from which walks restart; nodes of a dense inverse


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--embeddings", type=Path, help=".npz file of points x [N, D]")
    parser.add_argument("--num-points", type=int, default=2000, help="of random points")
    parser.add_argument("--channels", type=int, default=64, help="of random points")
    parser.add_argument("--k", type=int, default=15)
    parser.add_argument("--repeats", type=int, default=5)
    return parser.parse_args(argv)


def appnp_polynomial() -> Filter:
    """What APPNP computes in K steps, as a function of the eigenvalue."""

    def response(eigenvalue: Tensor) -> Tensor:
        s, out = 1 - eigenvalue, torch.ones_like(eigenvalue)
        for _ in range(STEPS):
            out = (1 - ALPHA) * s * out + ALPHA
        return out

    return FromFunction(response)


def forward_backward(run: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[], Tensor]:
    def call() -> Tensor:
        leaf = x.clone().requires_grad_()
        out = run(leaf)
        out.sum().backward()
        return out.detach()

    return call


def compare(x: Tensor, k: int, repeats: int) -> pd.DataFrame:
    size, channels = x.shape
    edge_index, _ = knn_graph(x, k)
    edge_index = torch.cat([edge_index, edge_index.flip(0)], 1).unique(dim=1)
    loops = torch.arange(size).expand(2, -1)
    looped = torch.cat([edge_index, loops], 1)  # gcn_norm adds loops, as self_loop=1
    operator = laplacian_operator(GraphStructure(edge_index, size), self_loop=1.0)
    degree = torch.bincount(looped[0], minlength=size).float()
    value = (degree[looped[0]] * degree[looped[1]]).rsqrt().double().numpy()
    matrix = scipy.sparse.csr_array((value, looped.numpy()), (size, size))
    minus_l = TIME * (matrix - scipy.sparse.eye_array(size)).tocsr()
    trace, columns = minus_l.trace(), x.numpy().astype(np.float64)
    # The layers of channels: their linear maps are left out.
    adjacency = torch.sparse_coo_tensor(edge_index, torch.ones(edge_index.size(1)), (size, size))
    adjacency = adjacency.coalesce().to_sparse_csr()
    appnp, sparse = (APPNP(STEPS, ALPHA, cached=True) for _ in range(2))
    ssg = SSGConv(channels, channels, 0.1, STEPS)
    ssg.lin = torch.nn.Identity()
    cheb = ChebConv(channels, channels, STEPS + 1)
    for each in cheb.lins:
        each.requires_grad_(False)
    ours, limit = appnp_polynomial(), PersonalizedPageRank(ALPHA)
    trained = {
        "APPNP(K=10)": lambda v: appnp(v, edge_index),
        "APPNP(K=10), sparse adjacency": lambda v: sparse(v, adjacency),
        "SSGConv(K=10), no map": lambda v: ssg(v, edge_index),
        "ChebConv(K=11), with its maps": lambda v: cheb(v, edge_index),
        "our filter, the same polynomial": lambda v: diffuse(v, operator, ours),
        "our PersonalizedPageRank, tol 1e-6": lambda v: diffuse(v, operator, limit),
    }
    forward = {
        "SciPy expm_multiply": lambda: torch.from_numpy(
            scipy_expm_multiply(minus_l, columns, traceA=trace)
        ),
        "our expm_multiply, from bare SciPy": lambda: torch.from_numpy(
            expm_multiply(minus_l, columns)
        ),
        "our diffuse, t = 5": lambda: diffuse(x, operator, TIME),
    }
    both = {name: forward_backward(run, x) for name, run in trained.items()}
    rows = []
    for part, calls in (("forward + backward", both), ("forward, exponential", forward)):
        seconds, base = medians(calls, repeats), next(iter(calls))
        exact = calls[base]().double()
        for name, call in calls.items():
            alike = (
                name.startswith(("our filter", "APPNP(K=10), sparse"))
                or part != "forward + backward"
            )
            error = float((call().double() - exact).norm() / exact.norm()) if alike else np.nan
            speed = seconds[base] / seconds[name]
            rows.append((part, name, round(seconds[name], 4), speed, base, error))
    return pd.DataFrame(rows, columns=COLUMNS)


def compare_with_peers(x: Tensor, k: int, repeats: int) -> tuple[pd.DataFrame, list[str]]:
    """Other libraries on the graph without loops; and the names of those that are missing."""
    edge_index, _ = knn_graph(x, k)
    size, missing, rows = len(x), [], []
    operator = laplacian_operator(GraphStructure(edge_index, size))
    root = operator.matrix.csr.rowptr.diff().float().sqrt()[:, None]
    ones = np.ones(edge_index.size(1))
    matrix = scipy.sparse.csr_matrix((ones, edge_index.numpy()), (size, size))
    limit, restarts = PersonalizedPageRank(ALPHA), torch.arange(min(RESTARTS, size))

    def walks() -> Tensor:
        """Rows of alpha (I - (1 - alpha) D^-1 W)^-1."""
        starts = torch.eye(size)[:, restarts] / root[restarts].T
        return (root * diffuse(starts, operator, limit)).T

    def pygsp() -> Callable[[], Tensor]:
        from pygsp import filters, graphs

        graph = graphs.Graph(matrix, lap_type="normalized")
        graph.estimate_lmax()
        heat, columns = filters.Heat(graph, scale=TIME * graph.lmax), x.double().numpy()
        return lambda: torch.from_numpy(heat.filter(columns, method="chebyshev", order=DEGREE))

    def ott_jax() -> Callable[[], Tensor]:
        import jax
        from jax.experimental.sparse import BCOO
        from ott.geometry.geodesic import Geodesic

        adjacency = BCOO.from_scipy_sparse(matrix.astype(np.float32))
        options = {"order": DEGREE, "normalize": True}
        kernel = Geodesic.from_graph(adjacency, TIME, jax.numpy.float32(2), **options)
        apply, columns = jax.jit(lambda k, v: k.apply_kernel(v)), jax.numpy.asarray(x.numpy())
        return lambda: torch.from_numpy(np.array(apply(kernel, columns)))

    def pyg_spectral() -> Callable[[], Tensor]:
        from pyg_spectral.nn.models import DecoupledFixed

        model = DecoupledFixed(
            "AdjConv",
            num_hops=STEPS,
            theta_scheme="custom",
            theta_param=[*(ALPHA * (1 - ALPHA) ** k for k in range(STEPS)), (1 - ALPHA) ** STEPS],
        )
        value = 1 / (root[edge_index[0], 0] * root[edge_index[1], 0])
        adjacency = torch.sparse_coo_tensor(edge_index, value, (size, size)).coalesce()
        adjacency = adjacency.to_sparse_csr()
        return forward_backward(lambda v: model(v, adjacency), x)

    def scikit_network() -> Callable[[], Tensor]:
        from sknetwork.ranking import PageRank

        rank = PageRank(1 - ALPHA, "piteration", n_iter=150, tol=1e-9)
        return lambda: torch.stack(
            [torch.from_numpy(rank.fit_predict(matrix, {i: 1})) for i in restarts.tolist()]
        )

    def torch_ppr() -> Callable[[], Tensor]:
        from torch_ppr import personalized_page_rank

        options = {"alpha": ALPHA, "epsilon": 1e-7, "max_iter": 1000}
        return lambda: personalized_page_rank(edge_index=edge_index, indices=restarts, **options)

    ours, heat = appnp_polynomial(), f"heat, t = {TIME:g}"
    walking = f"walks that restart at {len(restarts)} nodes"
    training = "forward + backward, no loops"
    trained = forward_backward(lambda v: diffuse(v, operator, ours), x)
    ways: list[tuple[str, str, Callable[[], Callable[[], Tensor]], Callable[[], Tensor]]] = [
        ("pyg_spectral, the same polynomial", training, pyg_spectral, trained),
        ("pygsp", heat, pygsp, lambda: diffuse(x, operator, TIME)),
        ("ott-jax Geodesic", heat, ott_jax, lambda: diffuse(x, operator, TIME)),
        ("scikit-network", walking, scikit_network, walks),
        ("torch-ppr", walking, torch_ppr, walks),
    ]
    for name, part, prepare, mine in ways:
        try:
            peer = prepare()
        except ImportError as error:
            missing.append(f"{name} ({error})")
            continue
        rows += _pair(part, name, peer, mine, repeats)

    few = x[:GDC_NODES]
    edges = knn_graph(few, k)[0]
    small = laplacian_operator(GraphStructure(edges, len(few)))
    gdc = GDC(self_loop_weight=None, exact=True)
    weight = gdc.transition_matrix(edges, torch.ones(edges.size(1)), len(few), "sym")[1]

    def dense() -> Tensor:
        return gdc.diffusion_matrix_exact(edges, weight, len(few), "ppr", alpha=ALPHA)

    part = f"PageRank between all of {len(few):,} nodes"
    rows += _pair(
        part, "GDC, exact", dense, lambda: diffuse(torch.eye(len(few)), small, limit), repeats
    )
    return pd.DataFrame(rows, columns=COLUMNS), missing


def _pair(
    part: str, name: str, peer: Callable[[], Tensor], ours: Callable[[], Tensor], repeats: int
) -> list[tuple]:
    seconds = medians({name: peer, "ours": ours}, repeats)
    found, expected = ours().double(), peer().double()
    error = float((found - expected).norm() / expected.norm())
    speed = seconds[name] / seconds["ours"]
    peer_row = (part, name, round(seconds[name], 4), 1.0, name, np.nan)
    return [peer_row, (part, "ours", round(seconds["ours"], 4), speed, name, error)]


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        x = load_points(args)
        peers, missing = compare_with_peers(x, args.k, args.repeats)
        table = pd.concat([compare(x, args.k, args.repeats), peers], ignore_index=True)
        notes = [
            "# Filters beside other libraries",
            f"`python examples/benchmarks/filters.py`: {x.size(0):,} points of {x.size(1)} "
            f"channels, graph of {args.k} neighbours, medians of {args.repeats} calls in turn, in "
            f"seconds of the processor. APPNP keeps its normalisation from call to call, and "
            f"operators, ours and of others, are made once. Afterwards {os.getloadavg()[0]:.0f} "
            f"processes wanted the {os.cpu_count()} processors. {machine()}.",
        ]
        if missing:
            notes.append(f"Not measured: {'; '.join(missing)}.")
        write_table(table, args.output, "filters", notes)
    finally:
        torch.set_num_threads(threads)
    return table


if __name__ == "__main__":
    main()
