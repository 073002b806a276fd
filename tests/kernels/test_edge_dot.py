"""Products at the ends of edges against the definition: values, derivatives, memory."""

import pytest
import torch
from largest import LargestTensor
from laws import random_graph
from torch.testing import assert_close

from jsem_pyg.kernels import edge_dot as module
from jsem_pyg.kernels.edge_dot import edge_dot

NONE = torch.empty(2, 0, dtype=torch.long)
GRAPHS = {
    "no nodes": (NONE, 0),
    "no edges": (NONE, 5),
    "a loop": (torch.tensor([[0], [0]]), 1),
    "isolated nodes": (random_graph(20, 0.2, num_isolated=5)[0], 20),
    "repeated": (random_graph(12, 0.5)[0].repeat(1, 3).flip(1).int(), 12),
}


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    """So that small graphs are cut too."""
    monkeypatch.setattr(module, "_CHUNK", {"cpu": 64})


def definition(a, b, i, j):
    return (a[i] * b[j]).sum(-1)


def rows(num_rows, channels=5, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(num_rows, channels, dtype=torch.float64, generator=draw).requires_grad_()


def derivatives(dot, a, b, i, j):
    """Values, both gradients, and the gradients of these."""
    out = dot(a, b, i, j)
    first = torch.autograd.grad(out.sin().sum(), [a, b], create_graph=True)
    second = torch.autograd.grad(sum(each.cos().sum() for each in first), [a, b])
    return [out, *first, *second]


@pytest.mark.parametrize("name", GRAPHS)
def test_values_and_derivatives_are_those_of_the_definition(name):
    (i, j), num_nodes = GRAPHS[name]
    for a, b, first in ((rows(num_nodes), rows(num_nodes, seed=1), i), (rows(3), rows(20), i % 3)):
        found, expected = (derivatives(dot, a, b, first, j) for dot in (edge_dot, definition))
        assert_close(found, expected)


def test_no_pair_of_rows_for_every_edge_is_made():
    i, j = torch.randint(30, (2, 2000))
    z = rows(30, channels=20)
    with LargestTensor() as made:
        edge_dot(z, z, i, j).sum().backward()
    assert made.most <= 2000
