"""Sketches of nodes: heat of random signs."""

import numpy as np
import pytest
import torch
from dense import dense_laplacian, exact_heat_diffusion
from torch.nn.functional import normalize
from torch.testing import assert_close

from jsem_pyg.diffusion import sketch_nodes
from jsem_pyg.graph import GraphStructure
from jsem_pyg.partition import diffuse_file


def random_graph(size=40, seed=0):
    """Two parts, isolated nodes, repeated edges, and weights."""
    generator = torch.Generator().manual_seed(seed)
    once = torch.randint(0, size // 2 - 2, (2, 60), generator=generator)
    once = torch.cat([once, once + size // 2], dim=1)
    once = once[:, once[0] != once[1]]
    weight = torch.rand(once.size(1), generator=generator, dtype=torch.float64) + 0.1
    edge_index = torch.cat([once, once.flip(0)], dim=1)
    return edge_index, torch.cat([weight, weight])


def random_signs(size, columns, seed):
    """The signs that a sketch starts from."""
    alone = torch.empty(2, 0, dtype=torch.int64)
    return sketch_nodes(alone, columns, t=0.0, num_nodes=size, seed=seed).sign().double()


@pytest.mark.parametrize("power", [0.0, 0.5, -0.7])
def test_equals_the_dense_formula(power):
    edge_index, weight = random_graph()
    times = [0.0, 2.0, 9.0]
    found = sketch_nodes(
        edge_index, 60, weight, times, num_nodes=40, degree_power=power, tol=1e-9, seed=3
    )
    degree = dense_laplacian(edge_index, weight, 40, normalization=None).diagonal()
    joined = degree > 0
    start = torch.where(joined, degree, 1).pow(power)[:, None] * random_signs(40, 20, seed=3)
    for t, rows in zip(times, found.split(20, dim=1), strict=True):
        heat = exact_heat_diffusion(start, edge_index, weight, t, normalization="rw")
        heat = heat - joined[:, None] * (degree / degree.sum() @ heat)
        assert_close(rows, heat / heat.norm(dim=1, keepdim=True), rtol=0, atol=1e-7)


def test_products_estimate_those_of_the_heat_kernel():
    edge_index, weight = random_graph()
    degree = dense_laplacian(edge_index, weight, 40, normalization=None).diagonal()
    kernel = exact_heat_diffusion(
        torch.eye(40).double(), edge_index, weight, 3.0, normalization="rw"
    )
    kernel = normalize(kernel - (degree > 0)[:, None] * (degree / degree.sum() @ kernel))
    rows = sketch_nodes(edge_index, 20_000, weight, 3.0, num_nodes=40)
    assert_close(rows @ rows.T, kernel @ kernel.T, rtol=0, atol=0.04)


def test_follows_the_seed_and_the_numbers_of_nodes():
    edge_index, weight = random_graph()
    rows = sketch_nodes(edge_index, 8, weight, seed=1)
    assert torch.equal(rows, sketch_nodes(edge_index, 8, weight, seed=1))
    assert not torch.equal(rows, sketch_nodes(edge_index, 8, weight, seed=2))
    order = torch.randperm(edge_index.size(1))
    assert_close(sketch_nodes(edge_index[:, order], 8, weight[order], seed=1), rows)
    assert_close(sketch_nodes(GraphStructure(edge_index, len(rows)), 8, weight, seed=1), rows)


def test_types_and_graphs_without_edges():
    edge_index, weight = random_graph()
    assert sketch_nodes(edge_index, 4, weight.requires_grad_()).requires_grad is False
    narrow = sketch_nodes(edge_index, 4, weight.detach().float())
    assert narrow.dtype == torch.float32
    assert_close(narrow, sketch_nodes(edge_index, 4, weight.detach()).float(), rtol=0, atol=0.02)
    nothing = torch.empty(2, 0, dtype=torch.int64)
    assert sketch_nodes(nothing, 4).shape == (0, 4)
    alone = sketch_nodes(nothing, 64, num_nodes=3)  # each node keeps its signs
    assert_close(alone.norm(dim=1), torch.full((3,), 2**0.5))
    assert (alone @ alone.T - 2 * torch.eye(3)).abs().max() < 1


def test_file_gives_the_same(tmp_path):
    edge_index, weight = random_graph()
    signs = random_signs(40, 10, seed=0).numpy()
    options = {"edge_weight": weight, "normalization": "rw", "memory": "16GB"}
    path = diffuse_file(signs, edge_index, tmp_path / "heat.npy", 4.0, **options)
    heat = torch.from_numpy(np.load(path))
    degree = dense_laplacian(edge_index, weight, 40, normalization=None).diagonal()
    heat -= (degree > 0)[:, None] * (degree / degree.sum() @ heat)
    rows = sketch_nodes(edge_index, 10, weight, 4.0, num_nodes=40, tol=1e-9)
    assert_close(rows, normalize(heat), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"dim": 5}, "'dim'"),
        ({"t": -1.0}, "'t'"),
        ({"degree_power": 1.0}, "'degree_power'"),
        ({"num_nodes": 1}, "'edge_index'"),
    ],
)
def test_refuses(options, name):
    options = {"edge_index": torch.tensor([[0, 1], [1, 0]]), "dim": 4} | options
    with pytest.raises(ValueError, match=name):
        sketch_nodes(**options)
