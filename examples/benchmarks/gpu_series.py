"""The series alone, with S given, by every kernel that can sum it; a part of gpu_epoch.py."""

import argparse
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields

import torch
from gpu_timing import Note, error, last_line, seconds, too_large
from torch import Tensor
from training_epoch import Epoch, load_points

from jsem_pyg.diffusion import heat_coefficients
from jsem_pyg.graph import GraphStructure
from jsem_pyg.kernels.fused import SWITCHES
from jsem_pyg.neighbors import knn_graph
from jsem_pyg.operators import laplacian_operator

NAMES = [each.name for each in fields(SWITCHES)]
# Columns and neighbours that a window holds at a time; the first are those of the package.
WINDOWS = [(64, 32), (128, 32), (64, 16), (64, 64)]


@contextmanager
def switched(*names: str) -> Iterator[None]:
    """Turn on these switches of the kernels, and no others."""
    before = {name: getattr(SWITCHES, name) for name in NAMES}
    for name in NAMES:
        setattr(SWITCHES, name, name in names)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(SWITCHES, name, value)


def cusparse(structure: GraphStructure, weight: Tensor, degree: int) -> Epoch:
    """The recurrence by torch's CSR products, forward only, with S made beforehand."""
    operator = laplacian_operator(structure, weight).matrix
    csr, size = operator.csr, structure.num_nodes
    warnings.filterwarnings("ignore", "Sparse", UserWarning)
    matrix = torch.sparse_csr_tensor(
        csr.rowptr, csr.col.long(), operator.values[0], (size, size), check_invariants=False
    )
    c = heat_coefficients(torch.tensor(5.0), degree).tolist()

    def run(x: Tensor, weight: Tensor, t: Tensor) -> Tensor:
        with torch.no_grad():
            before, term = x, matrix @ x
            out = c[0] * before + c[1] * term
            for each in c[2:]:
                before, term = term, 2 * (matrix @ term) - before
                out += each * term
            return out

    return run


def given_s(structure: GraphStructure, weight: Tensor, degree: int, backend: str) -> Epoch:
    """Ours under the conditions of :func:`cusparse`, for the entries of S in place of weights."""
    operator = laplacian_operator(structure, weight, backend=backend).matrix
    c = heat_coefficients(torch.tensor(5.0), degree).to(weight).view(-1, 1, 1)

    def run(x: Tensor, values: Tensor, t: Tensor) -> Tensor:
        return operator.with_values((values,)).series(x, c).squeeze(0)

    return run


def results(epoch: Epoch, x: Tensor, values: Tensor) -> list[Tensor]:
    """The series, and the gradients in x and S."""
    x, values = (each.clone().requires_grad_() for each in (x, values))
    out = epoch(x, values, values)
    return [out.detach(), *torch.autograd.grad(out, (x, values), out.detach())]


def series(args: argparse.Namespace, note: Note) -> None:
    """The series and its gradients in x and S: rows, windows of several sizes, graphs, cuSPARSE."""
    x = load_points(args).to(args.device)
    edge_index, weight = knn_graph(x.cpu(), args.k)
    structure = GraphStructure(edge_index.to(args.device), x.size(0))
    weight = weight.to(args.device)
    s = laplacian_operator(structure, weight).matrix.values[0].detach()
    exact = results(
        given_s(structure, weight.double(), args.degree, "torch"), x.double(), s.double()
    )
    ours = given_s(structure, weight, args.degree, "triton")
    shape = {"N": x.size(0), "D": x.size(1)}
    ways: dict[str, tuple[Epoch, list[str], tuple[int, int]]] = {
        "rows": (ours, [], WINDOWS[0]),
        "rows, replayed": (ours, ["replay"], WINDOWS[0]),
        **{f"windows, {a} x {b}": (ours, ["windows"], (a, b)) for a, b in WINDOWS},
        "windows, replayed": (ours, ["windows", "replay"], WINDOWS[0]),
        "torch (cuSPARSE)": (given_s(structure, weight, args.degree, "torch"), [], WINDOWS[0]),
    }
    for way, (epoch, names, (columns, neighbours)) in ways.items():
        try:
            with switched(*names), window_size(columns, neighbours):
                for _ in range(3):  # a graph is captured in the second call
                    found = results(epoch, x, s)
                off = max(error(*pair) for pair in zip(found, exact, strict=True))
                row = seconds(epoch, x, s, args.repeats)
            note(way=f"series, {way}", **shape, **row, error=off, failed=too_large(off, 1e-5))
        except Exception as problem:
            note(way=f"series, {way}", **shape, failed=last_line(problem))


@contextmanager
def window_size(columns: int, neighbours: int) -> Iterator[None]:
    """Let windows hold so many columns and neighbours at a time."""
    from jsem_pyg.kernels.chebyshev import triton_gpu

    before = triton_gpu._WINDOW_BLOCK, triton_gpu._WINDOW_EDGES
    triton_gpu._WINDOW_BLOCK, triton_gpu._WINDOW_EDGES = columns, neighbours
    try:
        yield
    finally:
        triton_gpu._WINDOW_BLOCK, triton_gpu._WINDOW_EDGES = before
