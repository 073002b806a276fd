import pytest
import scipy.sparse
import torch
from laws import random_graph
from torch_geometric import EdgeIndex
from torch_geometric.typing import SparseTensor

from jsem_pyg.curvature import forman_curvature
from jsem_pyg.diffusion import heat_diffusion, heat_kernel_columns
from jsem_pyg.nn import AnisotropicDiffusion

NUM_NODES = 12


@pytest.fixture
def graph():
    edge_index, weight = random_graph(NUM_NODES, 0.4, num_isolated=1)
    generator = torch.Generator().manual_seed(1)
    return edge_index, weight, torch.randn(NUM_NODES, 3, dtype=torch.float64, generator=generator)


def sparse_forms(edge_index, weight):
    size = (NUM_NODES, NUM_NODES)
    coo = torch.sparse_coo_tensor(edge_index, weight, size, check_invariants=True)
    yield coo
    yield coo.coalesce()
    yield coo.to_sparse_csr()
    yield coo.to_sparse_csc()


def test_every_torch_form_gives_the_same_diffusion(graph):
    edge_index, weight, x = graph
    expected = heat_diffusion(x, edge_index, weight, 2.0)
    assert torch.equal(heat_diffusion(x, edge_index.int(), weight, 2.0), expected)
    wrapped = EdgeIndex(edge_index, sparse_size=(NUM_NODES, NUM_NODES))
    assert torch.equal(heat_diffusion(x, wrapped, weight, 2.0), expected)
    for form in sparse_forms(edge_index, weight):
        torch.testing.assert_close(heat_diffusion(x, form, t=2.0), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.sparse
def test_sparse_tensor_and_its_transpose(graph):
    edge_index, weight, x = graph
    expected = heat_diffusion(x, edge_index, weight, 2.0)
    adj = SparseTensor.from_edge_index(edge_index, weight, sparse_sizes=(NUM_NODES, NUM_NODES))
    for form in (adj, adj.t()):
        torch.testing.assert_close(heat_diffusion(x, form, t=2.0), expected, rtol=1e-9, atol=1e-12)
    without_values = adj.set_value(None)
    torch.testing.assert_close(
        heat_diffusion(x, without_values, weight, 2.0), expected, rtol=1e-9, atol=1e-12
    )


@pytest.mark.sparse
def test_values_of_a_sparse_tensor_learn(graph):
    edge_index, weight, x = graph
    learned = weight.clone().requires_grad_()
    adj = SparseTensor.from_edge_index(edge_index, learned, sparse_sizes=(NUM_NODES, NUM_NODES))
    heat_diffusion(x, adj, t=2.0).square().sum().backward()
    direct = weight.clone().requires_grad_()
    heat_diffusion(x, edge_index, direct, t=2.0).square().sum().backward()
    torch.testing.assert_close(learned.grad, direct.grad)


def test_values_of_a_csr_tensor_learn(graph):
    edge_index, weight, x = graph
    csr = torch.sparse_coo_tensor(edge_index, weight, (NUM_NODES, NUM_NODES)).to_sparse_csr()
    csr.requires_grad_()
    heat_diffusion(x, csr, t=2.0).square().sum().backward()
    direct = weight.clone().requires_grad_()
    heat_diffusion(x, edge_index, direct, t=2.0).square().sum().backward()
    torch.testing.assert_close(csr.grad.values(), direct.grad)


@pytest.mark.parametrize(
    ("edge_index", "error", "message"),
    [
        (scipy.sparse.eye_array(3), TypeError, "SciPy's.*from_scipy_sparse_matrix"),
        ([[0, 1], [1, 0]], TypeError, r"'edge_index' to be a \[2, E\] integer tensor .got list"),
        (torch.zeros(3, 2).long(), ValueError, r"shape \[2, E\] .got \[3, 2\]"),
        (torch.zeros(2, 2), ValueError, "integer type, int64 or int32 .got torch.float32"),
        (torch.eye(4).to_sparse(), ValueError, r"shape \[3, 3\].*got \[4, 4\]"),
        (torch.eye(3).to_sparse_bsr((1, 1)), ValueError, "layout"),
    ],
)
def test_what_is_not_a_graph_is_refused(edge_index, error, message):
    with pytest.raises(error, match=message):
        heat_diffusion(torch.eye(3), edge_index)


def test_edge_features_follow_the_entries_of_a_sparse_matrix_or_are_refused(graph):
    edge_index, weight, x = graph
    x, weight = x.float(), weight.float()
    edge_attr = weight[:, None].sin()
    layer, size = AnisotropicDiffusion(), (NUM_NODES, NUM_NODES)
    torch.nn.init.ones_(layer.conductance.slope)
    expected = layer(x, edge_index, weight, edge_attr)
    row_major = torch.argsort(edge_index[0] * NUM_NODES + edge_index[1])
    for order in (row_major, row_major.flip(0)):
        entries = edge_index[:, order]
        matrix = torch.sparse_coo_tensor(entries, weight[order], size, check_invariants=True)
        if order is row_major:
            torch.testing.assert_close(layer(x, matrix, None, edge_attr[order]), expected)
            continue
        with pytest.raises(ValueError, match=r"coalesced .*call edge_index.coalesce\(\)"):
            layer(x, matrix, None, edge_attr[order])
        torch.testing.assert_close(
            layer(x, matrix.coalesce(), None, edge_attr[row_major]), expected
        )


def test_identifiers_of_nodes_are_to_be_renumbered():
    """Four edges between nodes near 5e8 took 86 s and 12.8 GB."""
    edge_index = torch.tensor([[5, 1, 5, 2], [1, 5, 2, 5]]) * 10**8
    with pytest.raises(ValueError, match="'edge_index'.*got node 500000000.*renumber the nodes"):
        forman_curvature(edge_index)
    assert heat_kernel_columns(edge_index // 10**8, torch.tensor([1])).shape == (6, 1)
