import pytest
import torch

from jsem_pyg.diffusion import dense_laplacian
from jsem_pyg.operators import GraphStructure, laplacian_operator
from jsem_pyg.testing import random_graph

NORMALIZATIONS = ["sym", "rw", None]


def dense_s(operator):
    size = operator.csr.num_nodes
    dense = operator.values.new_zeros(size, size)
    return dense.index_put((operator.csr.row, operator.csr.col), operator.values)


def laplacian_of(operator):
    """P^(-1) diag(rate) (I - S) P, with zero rows for the fixed nodes."""
    size = operator.csr.num_nodes
    dense = torch.eye(size, dtype=operator.values.dtype) - dense_s(operator)
    if operator.rate is not None:
        dense = operator.rate[operator.group].unsqueeze(1) * dense
    if operator.similarity is not None:
        dense = dense * operator.similarity / operator.similarity.unsqueeze(1)
    if operator.fixed is not None:
        dense[operator.fixed] = 0
    return dense


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_describes_the_laplacian_and_has_its_spectrum_in_the_interval(normalization):
    edge_index, weight = random_graph(20, 0.15, num_isolated=2)
    operator = laplacian_operator(GraphStructure(edge_index, 20), weight, normalization)
    expected = dense_laplacian(edge_index, weight, 20, normalization)
    torch.testing.assert_close(laplacian_of(operator), expected)
    s = dense_s(operator)
    torch.testing.assert_close(s, s.t(), rtol=0, atol=0)
    eigenvalues = torch.linalg.eigvalsh(s)
    assert eigenvalues.min() >= -1 - 1e-12
    assert eigenvalues.max() <= 1 + 1e-12


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_edge_values_follow_the_input(normalization):
    edge_index, weight = random_graph(15, 0.3)
    order = torch.randperm(weight.numel(), generator=torch.Generator().manual_seed(0))
    edge_index, weight = edge_index[:, order], weight[order]
    operator = laplacian_operator(GraphStructure(edge_index, 15), weight, normalization)
    s = dense_s(operator)
    torch.testing.assert_close(operator.edge_values, s[edge_index[1], edge_index[0]])
    if normalization is None:
        torch.testing.assert_close(operator.diagonal, s.diagonal())


def test_an_edge_and_its_reverse_get_the_same_gradient():
    edge_index, weight = random_graph(15, 0.3)
    structure = GraphStructure(edge_index, 15)
    weight.requires_grad_()
    operator = laplacian_operator(structure, weight, "sym")
    (operator.values * torch.arange(operator.values.numel())).sum().backward()
    gradient = structure.to_slots(weight.grad)
    assert torch.equal(gradient, gradient[structure.reverse])
    assert gradient.abs().max() > 0


def test_the_bound_is_that_of_the_component():
    edge_index, weight = random_graph(10, 0.5)
    heavy = torch.cat([edge_index, edge_index + 10], dim=1)
    alone = laplacian_operator(GraphStructure(edge_index, 10), weight, None)
    together = laplacian_operator(
        GraphStructure(heavy, 20), torch.cat([weight, 1000 * weight]), None
    )
    s_alone, s_together = dense_s(alone), dense_s(together)
    torch.testing.assert_close(s_together[:10, :10], s_alone)
    torch.testing.assert_close(s_together[10:, 10:], s_alone)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_zero_weights_isolate_a_node_without_nan(normalization):
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    weight = torch.tensor([1.0, 1.0, 0.0, 0.0], requires_grad=True)
    operator = laplacian_operator(GraphStructure(edge_index, 3), weight, normalization)
    assert laplacian_of(operator)[2].tolist() == [0.0, 0.0, 0.0]
    operator.values.sum().backward()
    assert weight.grad.isfinite().all()


def test_an_unknown_normalization_is_refused():
    structure = GraphStructure(torch.empty(2, 0, dtype=torch.long), 1)
    with pytest.raises(ValueError, match="'normalization' to be one of 'sym', 'rw', None"):
        laplacian_operator(structure, torch.empty(0), "row")
