"""The series alone, with S given, by every kernel that can sum it; a part of gpu_epoch.py."""

import argparse
import warnings

import torch
from gpu_timing import Note, error, last_line, seconds, too_large
from torch import Tensor
from training_epoch import Epoch, load_points

from jsem_pyg.diffusion import heat_coefficients
from jsem_pyg.graph import GraphStructure
from jsem_pyg.neighbors import knn_graph
from jsem_pyg.operators import laplacian_operator


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
    """The series and its gradients in x and S, by Triton and by cuSPARSE."""
    x = load_points(args).to(args.device)
    edge_index, weight = knn_graph(x.cpu(), args.k)
    structure = GraphStructure(edge_index.to(args.device), x.size(0))
    weight = weight.to(args.device)
    s = laplacian_operator(structure, weight).matrix.values[0].detach()
    exact = results(
        given_s(structure, weight.double(), args.degree, "torch"), x.double(), s.double()
    )
    shape = {"N": x.size(0), "D": x.size(1)}
    for way in ("triton", "torch"):
        try:
            epoch = given_s(structure, weight, args.degree, way)
            found = results(epoch, x, s)
            off = max(error(*pair) for pair in zip(found, exact, strict=True))
            row = seconds(epoch, x, s, args.repeats)
            note(way=f"series, {way}", **shape, **row, error=off, failed=too_large(off, 1e-5))
        except Exception as problem:
            note(way=f"series, {way}", **shape, failed=last_line(problem))
