"""Triton's kernels beside the terms against torch; test_triton.py says in what process they run."""

import math
from dataclasses import fields

import pytest
import torch
from laws import random_graph

from jsem_pyg.diffusion.heat_coefficients import device_table, heat_coefficients
from jsem_pyg.graph import GraphStructure
from jsem_pyg.kernels.fused import SWITCHES
from jsem_pyg.kernels.fused.heat import learned_coefficients
from jsem_pyg.nn import AnisotropicChebConv, AnisotropicDiffusion, SigmoidConductance
from jsem_pyg.operators.fused_laplacian import fused_operator
from jsem_pyg.operators.laplacian import laplacian_entries

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
GRAPHS = {"one node": (1, 0), "isolated nodes": (9, 3), "no edges": (4, 4), "rows of 35": (37, 0)}


@pytest.fixture(autouse=True)
def _all_switches(monkeypatch):
    for each in fields(SWITCHES):
        monkeypatch.setattr(SWITCHES, each.name, True)


def shuffled_graph(num_nodes, num_isolated, dtype):
    """Edges in no order, with weights and symmetric numbers in [0.1, 1]."""
    edge_index, weight = random_graph(num_nodes, 0.9, num_isolated, dtype=dtype)
    order = torch.randperm(weight.numel(), generator=torch.Generator().manual_seed(1))
    edge_index, weight = edge_index[:, order].to(DEVICE), weight[order].to(DEVICE)
    conductance = 0.55 + 0.45 * (edge_index.sum(0) + edge_index.prod(0)).to(dtype).sin()
    return GraphStructure(edge_index, num_nodes), weight, conductance


def dense(structure, off_diagonal, diagonal):
    """Make S [N, N] of entries in the slots and on the diagonal."""
    nodes = torch.arange(structure.num_nodes, device=DEVICE)
    row, col = torch.cat([structure.row, nodes]), torch.cat([structure.col, nodes])
    empty = off_diagonal.new_zeros(structure.num_nodes, structure.num_nodes)
    return empty.index_put((row.long(), col.long()), torch.cat([off_diagonal, diagonal]), True)


def differentiate(make, *leaves):
    """Return S and the gradients of a product with it, in the leaves that are there."""
    leaves = [None if each is None else each.clone().requires_grad_() for each in leaves]
    s = make(*leaves)
    direction = torch.linspace(1, 9, s.numel(), dtype=s.dtype, device=DEVICE).sin().view_as(s)
    given = [each for each in leaves if each is not None]
    return [s.detach(), *torch.autograd.grad(s, given, direction, allow_unused=True)]


def check_entries(structure, weight, conductance, self_loop):
    dtype = (conductance if weight is None else weight).dtype

    def fused(weight, conductance):
        found = fused_operator(structure, weight, conductance, self_loop, dtype).matrix.values[0]
        return dense(structure, *found.split([structure.num_slots, structure.num_nodes]))

    def plain(weight, conductance):
        found = laplacian_entries(structure, weight, "sym", conductance, self_loop)
        alone = structure.csr.degree == 0  # which keep their features
        diagonal = alone.double() if self_loop == 0 else found.diagonal
        return dense(structure, found.off_diagonal, diagonal).to(dtype)

    rtol = 1e-12 if dtype == torch.float64 else 1e-5
    leaves = weight, conductance
    pairs = zip(differentiate(fused, *leaves), differentiate(plain, *leaves), strict=True)
    for found, wanted in pairs:
        assert found.dtype == wanted.dtype
        error = (found - wanted).double().norm()
        assert error <= rtol * max(float(wanted.double().norm()), 1e-30)


@pytest.mark.parametrize("self_loop", [0.0, 0.3])
@pytest.mark.parametrize(
    ("graph", "given", "dtype"),
    [
        *((graph, "both", torch.float64) for graph in GRAPHS),
        ("isolated nodes", "weights", torch.float64),
        ("isolated nodes", "conductances", torch.float64),
        ("isolated nodes", "both", torch.float32),
    ],
)
def test_entries(graph, given, dtype, self_loop):
    structure, weight, conductance = shuffled_graph(*GRAPHS[graph], dtype)
    weight = None if given == "conductances" else weight
    conductance = None if given == "weights" else conductance
    check_entries(structure, weight, conductance, self_loop)


@pytest.mark.parametrize("self_loop", [0.0, 1.0])
def test_edges_without_weight(self_loop):
    structure, weight, conductance = shuffled_graph(8, 0, torch.float64)
    row, col = structure.edges
    weight[(row < 3) & (col < 3)] = 0.0
    check_entries(structure, weight, conductance, self_loop)


@pytest.mark.parametrize("kind", ["diffusion", "convolution"])
@pytest.mark.parametrize("num_isolated", [0, 2])
def test_layers(kind, num_isolated):
    structure, weight, attr = shuffled_graph(6, num_isolated, torch.float64)
    x = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    results = []
    for backend in ("triton", "reference"):
        torch.manual_seed(0)
        layer = (
            AnisotropicDiffusion(t=[0.5, 2.0], tol=1e-10, backend=backend)
            if kind == "diffusion"
            else AnisotropicChebConv(3, 2, t=2.0, tol=1e-10, backend=backend)
        )
        layer = layer.to(DEVICE, torch.float64)
        with torch.no_grad():
            layer.conductance.slope.fill_(1.5)
        leaves = [x.to(DEVICE).requires_grad_(), weight.clone().requires_grad_()]
        out = layer(leaves[0], structure, leaves[1], attr)
        given = [*leaves, *layer.parameters()]
        results.append([out, *torch.autograd.grad(out.sin().sum(), given)])
    for found, wanted in zip(*results, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("num_edges", "num_features"), [(0, 1), (7, 1), (1200, 3)])
def test_sigmoid(num_edges, num_features, dtype):
    generator = torch.Generator().manual_seed(0)
    attr = 30 * torch.randn(num_edges, num_features, dtype=dtype, generator=generator).to(DEVICE)
    layer = SigmoidConductance(num_features, rate=0.7).to(DEVICE, dtype)
    with torch.no_grad():
        layer.slope.copy_(torch.linspace(-1, 2, num_features))
        layer.threshold.copy_(torch.linspace(0.5, 1, num_features))
    plain = layer(attr)
    fused = layer(attr, fuse=True)
    direction = torch.linspace(-1, 1, num_edges, dtype=dtype, device=DEVICE)
    rtol, atol = (1e-12, 1e-13) if dtype == torch.float64 else (1e-4, 1e-5)
    learned = (layer.slope, layer.threshold)
    torch.testing.assert_close(fused, plain, rtol=rtol, atol=atol)
    for found, wanted in zip(
        torch.autograd.grad(fused, learned, direction),
        torch.autograd.grad(plain, learned, direction),
        strict=True,
    ):
        torch.testing.assert_close(found, wanted, rtol=rtol, atol=atol * max(num_edges, 1))


@pytest.mark.parametrize(("degree", "dtype"), [(0, torch.float64), (24, torch.float32)])
@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (1, 70)])
def test_coefficients(shape, degree, dtype):
    raw = torch.linspace(-3, 2, math.prod(shape), dtype=dtype, device=DEVICE).view(shape)
    start = torch.logspace(-9, 3, math.prod(shape), dtype=dtype, device=DEVICE).view(shape)
    leaves = [raw.clone().requires_grad_() for _ in range(2)]
    t = start.double() * (0.2 * leaves[0].double()).exp()
    wanted = heat_coefficients(t, degree)
    longest = float(t.detach().max())
    table = device_table(degree, longest, raw.device)[:2]
    found, times = learned_coefficients(leaves[1], start, 0.2, table, torch.float64)
    torch.testing.assert_close(times, t.detach(), rtol=1e-13, atol=0)
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-13)
    direction = torch.linspace(-1, 2, found.numel(), dtype=torch.float64, device=DEVICE)
    slopes = [
        torch.autograd.grad(each, leaf, direction.view_as(each))[0]
        for each, leaf in zip((wanted, found), leaves, strict=True)
    ]
    rtol = 1e-12 if dtype == torch.float64 else 1e-6
    torch.testing.assert_close(*slopes, rtol=rtol, atol=1e-20)
