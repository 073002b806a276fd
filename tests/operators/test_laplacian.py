import pytest
import torch
from dense import dense_laplacian
from laws import random_graph

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.graph import GraphStructure
from jsem_pyg.operators import laplacian, laplacian_operator

NORMALIZATIONS = ["sym", "rw", None]


def make(structure, weight, normalization="sym", **kwargs):
    return laplacian_operator(structure, weight, normalization, backend="torch", **kwargs)


def dense_s(operator):
    csr, (value,) = operator.matrix.csr, operator.matrix.values
    dense = value.new_zeros(csr.num_rows, csr.num_rows)
    return dense.index_put((csr.row.long(), csr.col.long()), value)


def laplacian_of(operator):
    """P^(-1) diag(rate) (I - S) P, with zero rows for isolated nodes."""
    s = dense_s(operator)
    dense = operator.rate * (torch.eye(len(s), dtype=s.dtype) - s)
    if operator.row_scale is not None:
        dense = dense * operator.row_scale / operator.row_scale.unsqueeze(1)
    if operator.isolated is not None:
        dense[operator.isolated] = 0
    return dense


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_describes_the_laplacian_and_has_its_spectrum_in_the_interval(normalization):
    edge_index, weight = random_graph(20, 0.15, num_isolated=2)
    operator = make(GraphStructure(edge_index, 20), weight, normalization)
    expected = dense_laplacian(edge_index, weight, 20, normalization)
    torch.testing.assert_close(laplacian_of(operator), expected)
    s = dense_s(operator)
    assert torch.equal(s, s.t())
    eigenvalues = torch.linalg.eigvalsh(s)
    assert eigenvalues.abs().max() <= 1 + 1e-12


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_entries_of_a_large_graph_that_are_made_again_have_the_same_derivatives(
    normalization, monkeypatch
):
    (edge_index, weight), found = random_graph(15, 0.3), []
    x = torch.randn(15, 2, dtype=torch.float64)
    for many in (edge_index.size(1) + 1, 0):
        monkeypatch.setattr(laplacian, "MANY_SLOTS", many)
        leaf = weight.clone().requires_grad_()
        out = heat_diffusion(x, edge_index, leaf, normalization=normalization, backend="reference")
        (first,) = torch.autograd.grad(out.sin().sum(), leaf, create_graph=True)
        found.append((first, *torch.autograd.grad(first.square().sum(), leaf)))
    torch.testing.assert_close(*found, rtol=1e-12, atol=1e-12)


def test_an_edge_and_its_reverse_get_the_same_gradient():
    edge_index, weight = random_graph(15, 0.3)
    structure = GraphStructure(edge_index, 15)
    operator = make(structure, weight.requires_grad_())
    (operator.matrix.values[0] * torch.arange(structure.num_slots)).sum().backward()
    gradient = structure.to_slots(weight.grad)
    assert torch.equal(gradient, gradient[structure.reverse])
    assert gradient.abs().max() > 0


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_zero_weights_isolate_a_node_without_nan(normalization):
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    weight = torch.tensor([1.0, 1.0, 0.0, 0.0], requires_grad=True)
    operator = make(GraphStructure(edge_index, 3), weight, normalization)
    assert laplacian_of(operator)[2].tolist() == [0.0, 0.0, 0.0]
    operator.matrix.values[0].sum().backward()
    assert weight.grad.isfinite().all()


def conducting(repeat):
    edge_index, weight = random_graph(8, 0.4, num_isolated=1)
    if repeat:  # an edge twice, which need not conduct alike
        edge_index, weight = torch.cat([edge_index] * 2, dim=1), torch.cat([weight, 2 * weight])
    structure = GraphStructure(edge_index, 8)
    low, high = edge_index.min(0).values, edge_index.max(0).values
    h = torch.sin(3.0 * low + 5.0 * high + torch.arange(len(weight)) // (len(weight) // 2) * repeat)
    return structure, weight, h.double().abs()


@pytest.mark.parametrize("repeat", [False, True])
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_conductance_multiplies_the_weights(normalization, repeat):
    structure, weight, conductance = conducting(repeat)
    leaves = [[each.clone().requires_grad_() for each in (weight, conductance)] for _ in range(2)]
    with_h = make(structure, leaves[0][0], normalization, conductance=leaves[0][1])
    direct = make(structure, leaves[1][0] * leaves[1][1], normalization)
    torch.testing.assert_close(laplacian_of(with_h), laplacian_of(direct))
    for operator in (with_h, direct):
        laplacian_of(operator).sin().sum().backward()
    for one, other in zip(*leaves, strict=True):
        torch.testing.assert_close(one.grad, other.grad)


@pytest.mark.parametrize("repeat", [False, True])
@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_beside_loops_edges_conduct_relative_to_those_around(normalization, repeat):
    """So that a conductance chooses among the neighbours, and cannot switch the graph off."""
    structure, weight, conductance = conducting(repeat)

    def laplacian(h):
        return laplacian_of(make(structure, weight, normalization, conductance=h, self_loop=0.5))

    plain = laplacian_of(make(structure, weight, normalization, self_loop=0.5))
    torch.testing.assert_close(laplacian(torch.full_like(weight, 1e-3)), plain)
    torch.testing.assert_close(laplacian(1e-3 * conductance), laplacian(conductance))
    torch.testing.assert_close(laplacian(torch.zeros_like(weight)), torch.zeros_like(plain))
    torch.autograd.gradcheck(laplacian, conductance.requires_grad_())


@pytest.mark.parametrize("scale", [1e-30, 1e-10, 1.0, 1e10, 1e30])
@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_a_common_factor_of_the_weights_does_not_matter(normalization, scale):
    edge_index, weight = random_graph(12, 0.4, dtype=torch.float32)
    structure = GraphStructure(edge_index, 12)
    ones, results = torch.ones_like(weight), []
    for w in (ones, scale * ones):
        h = (0.1 + 0.8 * weight / 2).requires_grad_()
        operator = make(structure, w, normalization, conductance=h)
        laplacian_of(operator).square().sum().backward()
        results.append([laplacian_of(operator).detach(), h.grad])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("repeat", [False, True])
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_gradients_of_conductances(normalization, repeat):
    structure, weight, h = conducting(repeat)

    def entries(weight, h):
        return laplacian_of(make(structure, weight, normalization, conductance=h, self_loop=0.5))

    leaves = weight.requires_grad_(), h.requires_grad_()
    torch.autograd.gradcheck(entries, leaves)
    torch.autograd.gradgradcheck(entries, leaves)


@pytest.mark.parametrize("repeat", [False, True])
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
def test_an_edge_that_is_closed_altogether_can_open_again(normalization, repeat):
    structure, weight, h = conducting(repeat)
    slot, gradients = structure.slot, []
    closed = (structure.row[slot] + structure.col[slot]) % 3 == 0
    for crack in (0.0, 1e-9):
        opens = torch.where(closed, crack, h).requires_grad_()
        operator = make(structure, weight, normalization, conductance=opens, self_loop=0.5)
        gradients += torch.autograd.grad(laplacian_of(operator).square().sum(), opens)
    assert gradients[0][closed].abs().min() > 0
    torch.testing.assert_close(*gradients, rtol=1e-6, atol=1e-6)
