"""Diffusion by any operator, and columns of the heat kernel."""

import pytest
import torch
from dense import exact_heat_diffusion
from laws import assert_heat_laws, random_graph

from jsem_pyg.diffusion import diffuse, heat_diffusion, heat_kernel_columns
from jsem_pyg.graph import GraphStructure
from jsem_pyg.operators import Operator, laplacian_operator


class Ring(Operator):
    """The mean of both neighbours: autograd does the rest."""

    def __init__(self, num_nodes):
        self.num_nodes = num_nodes

    def apply(self, x):
        return (x.roll(1, 0) + x.roll(-1, 0)) / 2


def ring_edges(num_nodes):
    node = torch.arange(num_nodes)
    one_way = torch.stack([node, (node + 1) % num_nodes])
    return torch.cat([one_way, one_way.flip(0)], dim=1)


def test_an_operator_of_ones_own_is_a_method():
    x = torch.randn(2, 7, 3, dtype=torch.float64)
    actual = diffuse(x, Ring(7), 2.0, tol=1e-12)
    torch.testing.assert_close(actual, exact_heat_diffusion(x, ring_edges(7), t=2.0))
    assert_heat_laws(lambda x, t: diffuse(x, Ring(7), t, tol=1e-12), x)


def test_a_heat_operator_says_how_the_laplacian_is_made():
    edge_index, weight = random_graph(15, 0.2, num_isolated=1)
    x = torch.randn(15, 2, dtype=torch.float64)
    structure = GraphStructure(edge_index, 15)
    for normalization in ("sym", "rw", None):
        operator = laplacian_operator(structure, weight, normalization)
        expected = exact_heat_diffusion(x, edge_index, weight, 1.5, normalization)
        torch.testing.assert_close(diffuse(x, operator, 1.5, tol=1e-12), expected)
        step = x - 1e-7 * operator.apply_laplacian(x)
        short = exact_heat_diffusion(x, edge_index, weight, 1e-7, normalization)
        torch.testing.assert_close(step, short, rtol=0, atol=1e-10)


@pytest.mark.parametrize("backend", ["reference", "torch", "numba"])
def test_heat_kernel_columns_are_those_of_the_matrix(backend):
    edge_index, weight = random_graph(15, 0.2, num_isolated=2)
    nodes = torch.tensor([3, 0, 3, 14])
    eye = torch.eye(15, dtype=torch.float64)
    learned = weight.clone().requires_grad_()
    columns = heat_kernel_columns(
        edge_index, nodes, learned, 2.0, num_nodes=15, tol=1e-12, backend=backend
    )
    expected = exact_heat_diffusion(eye, edge_index, weight, 2.0)[:, nodes]
    torch.testing.assert_close(columns, expected)
    (actual,) = torch.autograd.grad(columns.square().sum(), learned)
    exact = weight.clone().requires_grad_()
    again = exact_heat_diffusion(eye, edge_index, exact, 2.0)[:, nodes]
    torch.testing.assert_close(actual, torch.autograd.grad(again.square().sum(), exact)[0])


def test_heat_kernel_columns_count_nodes_by_what_says_it():
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    nodes = torch.tensor([1])
    structure = GraphStructure(edge_index, 6)
    sparse = torch.sparse_coo_tensor(edge_index, torch.ones(4), (5, 5))
    assert heat_kernel_columns(edge_index, nodes).shape == (3, 1)
    assert heat_kernel_columns(edge_index, torch.tensor([4])).shape == (5, 1)
    assert heat_kernel_columns(structure, nodes).shape == (6, 1)
    assert heat_kernel_columns(sparse, nodes).shape == (5, 1)
    assert heat_kernel_columns(edge_index, nodes, t=torch.tensor([1.0, 2.0])).shape == (2, 3, 1)
    assert heat_kernel_columns(edge_index, nodes, edge_weight=torch.ones(4).double()).dtype == (
        torch.float64
    )
    assert torch.equal(
        heat_kernel_columns(edge_index, nodes), heat_diffusion(torch.eye(3), edge_index)[:, nodes]
    )
