import pytest
import torch
from simplicial_cases import CASES, IDS, cliques, dense_parts, weights

from jsem_pyg.graph import SimplicialStructure
from jsem_pyg.operators.hodge import hodge_operator

PARTS = ["down", "up"]


def case(name):
    edge_index, num_nodes = CASES[name]
    structure = SimplicialStructure(edge_index, num_nodes)
    return structure, weights(structure.edges)


def dense(structure, part, given=(None, None)):
    edges = structure.edges, structure.num_nodes, structure.triangles
    return dense_parts(*edges, *given)[PARTS.index(part)]


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("weighted", [False, True])
def test_is_the_formula(name, part, weighted):
    structure, given = case(name)
    given = given if weighted else (None, torch.ones_like(given[1]))
    operator = hodge_operator(structure, part, *given)
    eye = torch.eye(structure.num_edges, dtype=torch.float64)
    expected = dense(structure, part, given)
    torch.testing.assert_close(operator.apply_laplacian(eye), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("weighted", [False, True])
def test_spectrum_is_within_one_and_the_bound_is_not_far(name, part, weighted):
    structure, given = case(name)
    given = given if weighted else (None, torch.ones_like(given[1]))
    operator = hodge_operator(structure, part, *given)
    matrix = operator.matrix.apply(torch.eye(structure.num_edges, dtype=torch.float64))
    torch.testing.assert_close(matrix, matrix.t())
    laplacian = dense(structure, part, given)
    if structure.num_edges == 0:
        return
    spectrum = torch.linalg.eigvalsh(matrix)
    assert spectrum.min() > -1 - 1e-12
    assert spectrum.max() < 1 + 1e-12
    largest = torch.linalg.eigvalsh(laplacian).max()
    if largest > 1e-9:
        assert 2 * operator.rate < 3 * largest


@pytest.mark.parametrize("name", IDS)
def test_the_product_of_the_parts_is_zero(name):
    structure, given = case(name)
    down, up = (hodge_operator(structure, part, *given) for part in PARTS)
    eye = torch.eye(structure.num_edges, dtype=torch.float64)
    product = down.apply_laplacian(up.apply_laplacian(eye))
    assert product.abs().sum() < 1e-11


@pytest.mark.parametrize("small", [0.0, 1e-30])
def test_triangles_of_no_weight_leave_values_and_gradients_finite(small):
    structure, _ = case("random")
    weight = torch.full((cliques(structure.edges).size(1),), small, requires_grad=True)
    operator = hodge_operator(structure, "up", None, weight)
    x = torch.randn(structure.num_edges, 2)
    out = operator.matrix.apply(x)
    out.sum().backward()
    assert out.isfinite().all()
    assert weight.grad.isfinite().all()
