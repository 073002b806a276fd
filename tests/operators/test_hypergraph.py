import pytest
import torch
from hypergraph_cases import CASES, IDS, case, dense_hypergraph_matrix
from torch_geometric.nn import HypergraphConv

from jsem_pyg.graph import HypergraphStructure
from jsem_pyg.operators import hypergraph_operator

INDEX = torch.tensor([[0, 1, 2, 2, 3], [0, 0, 0, 1, 1]])


def dense(structure, weight=None, normalization="sym", **options):
    """S of the operator, by what its Laplacian does to the identity."""
    eye = torch.eye(structure.num_nodes, dtype=torch.float64)
    options = {"dtype": torch.float64} | options
    operator = hypergraph_operator(structure, weight, normalization, **options)
    return eye - operator.apply_laplacian(eye)


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize("table", [True, False])
def test_is_the_formula_of_the_paper(name, normalization, table):
    structure, weight = case(name)
    found = dense(structure, weight, normalization, dense=table)
    expected = dense_hypergraph_matrix(CASES[name][0], weight, structure.num_nodes, normalization)
    torch.testing.assert_close(found, expected)
    if normalization == "sym":
        operator = hypergraph_operator(structure, weight, dense=table)
        s = operator.matrix.apply(torch.eye(structure.num_nodes, dtype=torch.float64))
        torch.testing.assert_close(s, s.t())
        spectrum = torch.linalg.eigvalsh(s)
        assert ((spectrum > -1 - 1e-12) & (spectrum < 1 + 1e-12)).all()


@pytest.mark.parametrize("name", IDS)
def test_one_product_of_the_random_walk_is_pyg_hypergraph_conv(name):
    structure, _ = case(name)
    index, num_nodes, num_hyperedges = CASES[name]
    conv = HypergraphConv(3, 5, bias=False).double()
    x = torch.randn(num_nodes, 3, dtype=torch.float64)
    expected = conv(x, index, num_edges=num_hyperedges)
    connected = index[0].unique()  # PyG sets the others to zero
    actual = dense(structure, None, "rw") @ conv.lin(x)
    torch.testing.assert_close(actual[connected], expected[connected])


def test_weights_act_where_those_of_pyg_do_not():
    structure = HypergraphStructure(torch.tensor([[0, 1, 1, 2], [0, 0, 1, 1]]), 3)
    heavy, light = (dense(structure, torch.tensor(w), "rw") for w in ([3.0, 1.0], [1.0, 3.0]))
    assert heavy[1, 0] == pytest.approx(0.375)
    assert light[1, 0] == pytest.approx(0.125)


@pytest.mark.parametrize("normalization", ["sym", "rw"])
def test_a_common_factor_of_the_weights_cancels(normalization):
    structure, weight = case("random", torch.float32)
    expected = dense(structure, weight, normalization)
    for factor in (1e-12, 1e12):
        actual = dense(structure, factor * weight, normalization)
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("small", [0.0, 1e-30, 1e-24])
@pytest.mark.parametrize("table", [True, False])
def test_vanishing_weights_leave_values_and_gradients_finite(small, table):
    structure = HypergraphStructure(torch.tensor([[0, 1, 2, 3], [0, 0, 1, 1]]), 4)
    weight = torch.tensor([1.0, small], requires_grad=True)
    matrix = hypergraph_operator(structure, weight, dense=table).matrix
    out = matrix.apply(torch.eye(4))
    out.square().sum().backward()
    assert out.isfinite().all()
    assert weight.grad.isfinite().all()


@pytest.mark.parametrize(
    ("index", "num_nodes", "num_hyperedges", "error", "message"),
    [
        (INDEX, 3, None, ValueError, r"node numbers in \[0, 3\) \(got values from 0 to 3\)"),
        (INDEX, 4, 1, ValueError, r"hyperedge numbers in \[0, 1\) .*To fix this"),
        (-INDEX, 4, 2, ValueError, "from -3 to 0"),
    ],
)
def test_bad_structures_are_refused(index, num_nodes, num_hyperedges, error, message):
    with pytest.raises(error, match=message):
        HypergraphStructure(index, num_nodes, num_hyperedges)
