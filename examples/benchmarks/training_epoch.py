"""How long does one training epoch take: forward, and backward in x, the edge weights and t?

Each backend is compared with the naive way, autograd over `torch.sparse.mm` on a COO matrix, whose
gradient in the values is a dense N x N product (timed once, it takes half a minute), and forward
only with PyG's ChebConv of as many terms and scipy's expm_multiply. The rows of JAX, where it is
installed, are of functions that `jax.jit` has compiled: forward alone, and the whole epoch. Answers
are checked before anything is timed; ratios are of medians in the same run.

    python examples/benchmarks/training_epoch.py --embeddings 20newsgroups_train_minilm.npz
    python examples/benchmarks/training_epoch.py              # random points of the same size
"""

import argparse
import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from reporting import machine, medians, parser_of, write_table
from scipy.sparse.linalg import expm_multiply
from torch import Tensor
from torch_geometric.nn import ChebConv
from torch_geometric.utils import get_laplacian, to_scipy_sparse_matrix

from jsem_pyg.diffusion import heat_coefficients, heat_diffusion
from jsem_pyg.graph import GraphStructure
from jsem_pyg.kernels.table import CHEBYSHEV
from jsem_pyg.neighbors import knn_graph

Epoch = Callable[[Tensor, Tensor, Tensor], Tensor]


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--embeddings", type=Path, help=".npz file of points x [N, D]")
    parser.add_argument("--num-points", type=int, default=11_314, help="of random points")
    parser.add_argument("--channels", type=int, default=384, help="of random points")
    parser.add_argument("--k", type=int, default=15)
    parser.add_argument("--degree", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sketch-dim", type=int, default=64)
    return parser.parse_args(argv)


def load_points(args: argparse.Namespace) -> Tensor:
    if args.embeddings is None:
        return torch.randn(
            args.num_points, args.channels, generator=torch.Generator().manual_seed(0)
        )
    with np.load(args.embeddings, allow_pickle=False) as file:
        return F.normalize(torch.from_numpy(file["x"].astype("float32")))


def fused(structure: GraphStructure, degree: int | None, backend: str) -> Epoch:
    return lambda x, weight, t: heat_diffusion(
        x, structure, weight, t, degree=degree, backend=backend
    )


def naive(structure: GraphStructure, degree: int) -> Epoch:
    """The recurrence written down with `torch.sparse.mm`, left to autograd."""
    target, source = structure.edges
    size = structure.num_nodes

    def run(x: Tensor, weight: Tensor, t: Tensor) -> Tensor:
        root = weight.new_zeros(size).index_add(0, target, weight).rsqrt()
        values = root[target] * weight * root[source]
        s = torch.sparse_coo_tensor(torch.stack([target, source]), values, (size, size))
        coefficients = heat_coefficients(t, degree).to(x)
        before, term = x, torch.sparse.mm(s, x)
        out = coefficients[0] * before + coefficients[1] * term
        for k in range(2, degree + 1):
            before, term = term, 2 * torch.sparse.mm(s, term) - before
            out = out + coefficients[k] * term
        return out

    return run


def measure(epoch: Epoch, x: Tensor, weight: Tensor) -> tuple[list[Tensor], float, float]:
    """Run one epoch: the results, and the seconds forward and backward."""
    leaves = [x.clone().requires_grad_(), weight.clone().requires_grad_()]
    leaves.append(torch.tensor(5.0, requires_grad=True))
    started = time.perf_counter()
    out = epoch(*leaves)
    half_way = time.perf_counter()
    out.square().sum().backward()
    finished = time.perf_counter()
    gradients = [leaf.grad for leaf in leaves]
    return [out.detach(), *gradients], half_way - started, finished - half_way


def symmetric_part(results: list[Tensor], structure: GraphStructure) -> list[Tensor]:
    """Give both directions of an edge the mean of their gradients, as heat_diffusion does."""
    slots = structure.to_slots(results[2])
    mean = structure.to_edges((slots + slots[structure.reverse]) / 2)
    return [*results[:2], mean, results[3]]


def time_epoch(epoch: Epoch, x: Tensor, weight: Tensor, repeats: int) -> dict[str, float]:
    timings = [measure(epoch, x, weight)[1:] for _ in range(repeats)]
    forward, backward = (statistics.median(each) for each in zip(*timings, strict=True))
    return {"forward s": forward, "backward s": backward, "epoch s": forward + backward}


def check(name: str, actual: list[Tensor], expected: list[Tensor], tol: float = 1e-4) -> None:
    for each, wanted in zip(actual, expected, strict=True):
        error = float((each - wanted).norm() / wanted.norm())
        if not error <= tol:
            raise AssertionError(f"{name} disagrees: a relative error of {error:.2g}.")


def jax_epochs(
    structure: GraphStructure, x: Tensor, weight: Tensor, degree: int, repeats: int
) -> dict[str, tuple[list[Tensor], dict[str, float]]]:
    """The results and the seconds of an epoch by JAX."""
    if find_spec("jax") is None:
        print("JAX is not installed: its rows are left out (pip install 'jsem_pyg[jax]').\n")
        return {}
    import jax
    import jax.numpy as jnp

    from jsem_pyg.jax import heat_diffusion as heat_by_jax

    leaves = [jnp.asarray(each.numpy()) for each in (x, weight, torch.tensor(5.0))]

    def forward(x, weight, t):
        return heat_by_jax(x, structure, weight, t, degree=degree)

    def loss(*leaves):
        out = forward(*leaves)
        return jnp.square(out).sum(), out

    epoch = jax.jit(jax.value_and_grad(loss, (0, 1, 2), has_aux=True))
    (_, out), gradients = epoch(*leaves)
    results = [torch.from_numpy(np.array(each)) for each in (out, *gradients)]
    calls = {
        f"{name} s": lambda f=f: jax.block_until_ready(f(*leaves))
        for name, f in {"forward": jax.jit(forward), "epoch": epoch}.items()
    }
    seconds = medians(calls, repeats, time.perf_counter)
    return {f"JAX, K = {degree}": (results, seconds)}


def peers_forward(x: Tensor, structure: GraphStructure, weight: Tensor, degree: int) -> dict:
    """What else spreads a signal over a graph, forward only."""
    target, source = structure.edges
    edge_index = torch.stack([source, target])
    conv = ChebConv(x.size(1), x.size(1), degree)
    laplacian = to_scipy_sparse_matrix(*get_laplacian(edge_index, weight, "sym"))
    rows = {}
    started = time.perf_counter()
    with torch.no_grad():
        conv(x, edge_index, weight)
    rows[f"PyG ChebConv(K={degree})"] = {"forward s": time.perf_counter() - started}
    started = time.perf_counter()
    exact = expm_multiply(-5.0 * laplacian.tocsr(), x.numpy())
    rows["scipy expm_multiply"] = {"forward s": time.perf_counter() - started}
    check("scipy", [torch.from_numpy(exact).float()], [heat_diffusion(x, structure, weight, 5.0)])
    return rows


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    x = load_points(args)
    edge_index, weight = knn_graph(x, args.k)
    structure = GraphStructure(edge_index, x.size(0))
    able = [name for name in CHEBYSHEV.backends if CHEBYSHEV.can_run(name, x.device)]
    # The reference stores a message for every edge, channel and term: too much at this size.
    fast = [name for name in able if name != "reference"]
    epochs = {name: fused(structure, args.degree, name) for name in fast}
    slow = naive(structure, args.degree)

    # Answers first. The first run of a backend also warms it up.
    by_naive, *naive_time = measure(slow, x, weight)
    expected = symmetric_part(by_naive, structure)
    for name, epoch in epochs.items():
        check(name, measure(epoch, x, weight)[0], expected)

    rows = {
        f"{name}, K = {args.degree}": time_epoch(epoch, x, weight, args.repeats)
        for name, epoch in epochs.items()
    }
    to_tolerance = fused(structure, None, "auto")
    rows["auto, K from tol"] = time_epoch(to_tolerance, x, weight, args.repeats)
    if x.size(1) > args.sketch_dim:
        sketch = x @ torch.randn(x.size(1), args.sketch_dim) / args.sketch_dim**0.5
        measure(to_tolerance, sketch, weight)
        rows[f"auto, K from tol, sketch_dim = {args.sketch_dim}"] = time_epoch(
            to_tolerance, sketch, weight, args.repeats
        )
    for name, (results, seconds) in jax_epochs(
        structure, x, weight, args.degree, args.repeats
    ).items():
        check(name, results, expected)
        rows[name] = seconds
    rows |= peers_forward(x, structure, weight, args.degree)
    rows["naive COO autograd"] = {
        "forward s": naive_time[0],
        "backward s": naive_time[1],
        "epoch s": sum(naive_time),
    }
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("way")
    table["naive epoch / this"] = table["epoch s"].iloc[-1] / table["epoch s"]
    chebconv = table["forward s"][f"PyG ChebConv(K={args.degree})"]
    table["ChebConv forward / this"] = chebconv / table["forward s"]
    notes = [
        machine(),
        f"N = {x.size(0)}, D = {x.size(1)}, {edge_index.size(1)} directed edges, "
        f"K = {args.degree}, t = 5, float32",
    ]
    write_table(table.reset_index(), args.output, "training_epoch", notes)
    return table


if __name__ == "__main__":
    main()
