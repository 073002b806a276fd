import pytest
import torch
from hypergraph_cases import CASES, IDS, case, dense_hypergraph_matrix
from torch_geometric.data import Batch
from torch_geometric.data.hypergraph_data import HyperGraphData
from torch_geometric.nn import HypergraphConv

from jsem_pyg.graph import HypergraphStructure
from jsem_pyg.graph.prepare import GraphReader
from jsem_pyg.graph.prepare_hypergraph import prepare_hypergraph, read_hypergraph
from jsem_pyg.operators import hypergraph_operator

INDEX = torch.tensor([[0, 1, 2, 2, 3], [0, 0, 0, 1, 1]])


def dense(structure, weight=None, normalization="sym", **options):
    """S of the operator, by what its Laplacian does to the identity."""
    eye = torch.eye(structure.num_nodes, dtype=torch.float64)
    options = {"dtype": torch.float64} | options
    operator = hypergraph_operator(structure, weight, normalization, **options)
    return eye - operator.apply_laplacian(eye)


def read(hypergraph, num_nodes, num_hyperedges=None):
    x = torch.zeros(num_nodes, 1)
    return read_hypergraph(GraphReader(size=0), hypergraph, x, None, num_hyperedges)[0]


@pytest.mark.parametrize("name", IDS)
@pytest.mark.parametrize("normalization", ["sym", "rw"])
@pytest.mark.parametrize("by_factors", [True, False])
def test_is_the_formula_of_the_paper(name, normalization, by_factors):
    structure, weight = case(name)
    found = dense(structure, weight, normalization, by_factors=by_factors)
    expected = dense_hypergraph_matrix(CASES[name][0], weight, structure.num_nodes, normalization)
    torch.testing.assert_close(found, expected)
    if normalization == "sym":
        operator = hypergraph_operator(structure, weight, by_factors=by_factors)
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
@pytest.mark.parametrize("by_factors", [True, False])
def test_vanishing_weights_leave_values_and_gradients_finite(small, by_factors):
    structure = HypergraphStructure(torch.tensor([[0, 1, 2, 3], [0, 0, 1, 1]]), 4)
    weight = torch.tensor([1.0, small], requires_grad=True)
    matrix = hypergraph_operator(structure, weight, by_factors=by_factors).matrix
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


def test_the_reader_prepares_once_and_sees_a_change():
    reader, index = GraphReader(), INDEX.clone()
    first = prepare_hypergraph(reader, index, 4)
    assert prepare_hypergraph(reader, index, 4) is first
    assert prepare_hypergraph(reader, index, 5) is not first
    second = prepare_hypergraph(reader, index, 5, 3)
    assert second.num_hyperedges == 3
    index[0, 0] = 3
    assert prepare_hypergraph(reader, index, 5, 3) is not second
    for _ in range(2):  # what was refused is not remembered
        with pytest.raises(ValueError, match="node numbers"):
            prepare_hypergraph(reader, index, 2)


def make_data(index, num_nodes, num_hyperedges, **kwargs):
    x, edge_attr = torch.randn(num_nodes, 3), torch.randn(num_hyperedges, 2)
    return HyperGraphData(x=x, edge_index=index, edge_attr=edge_attr, **kwargs)


def test_reads_a_hypergraph_data():
    data = make_data(INDEX, 4, 3, edge_weight=torch.rand(3))
    structure, weight = read_hypergraph(GraphReader(size=0), data, data.x)
    assert structure.num_hyperedges == 3  # the last one is empty
    assert weight is data.edge_weight
    given = torch.rand(3)
    assert read_hypergraph(GraphReader(size=0), data, data.x, given)[1] is given
    data = HyperGraphData(x=torch.randn(4, 1), edge_index=INDEX, num_hyperedges=7)
    assert read(data, 4).num_hyperedges == 7


def test_reads_a_batch():
    batch = Batch.from_data_list([make_data(INDEX, 4, 2), make_data(INDEX, 5, 2)])
    structure = read(batch, 9)
    assert structure.num_hyperedges == 4
    assert structure.node.tolist() == [0, 1, 2, 2, 3, 4, 5, 6, 6, 7]
    batch = Batch.from_data_list(
        [HyperGraphData(x=torch.ones(4, 1), edge_index=INDEX, num_hyperedges=2)] * 2
    )
    assert read(batch, 8).num_hyperedges == 4


def test_a_batch_that_pyg_numbers_wrongly_is_refused():
    # PyG forgets empty hyperedges at the end, ...
    batch = Batch.from_data_list([make_data(INDEX, 4, 3), make_data(INDEX, 4, 2)])
    with pytest.raises(ValueError, match="numbers hyperedges as it stacks"):
        read(batch, 8)
    data = HyperGraphData(x=torch.ones(4, 1), edge_index=INDEX, num_hyperedges=3)
    with pytest.raises(ValueError, match="numbers hyperedges as it stacks"):
        read(Batch.from_data_list([data, data]), 8)
    # ... and isolated nodes at the end where there are as many hyperedges as nodes.
    index = torch.tensor([[0, 0, 1], [0, 1, 2]])
    batch = Batch.from_data_list([make_data(index, 3, 3), make_data(INDEX, 4, 2)])
    with pytest.raises(ValueError, match="numbers nodes as it stacks"):
        read(batch, 7)


def test_a_prepared_structure_has_to_fit():
    structure = HypergraphStructure(INDEX, 4)
    assert read(structure, 4) is structure
    with pytest.raises(ValueError, match="'x' to have 4 nodes"):
        read(structure, 5)
    with pytest.raises(ValueError, match="'num_hyperedges' = 3"):
        read(structure, 4, 3)
