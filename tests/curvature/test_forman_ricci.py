import warnings

import networkx as nx
import pytest
import tiny_graphs
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from jsem_pyg.curvature import forman_curvature, jaccard_overlap
from jsem_pyg.graph import GraphStructure

METHODS = ["1d", "augmented", "balanced"]


@pytest.fixture(scope="module")
def graph_ricci_curvature():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its dependencies
        return pytest.importorskip("GraphRicciCurvature.FormanRicci").FormanRicci


def random_graph(seed, num_nodes, density):
    graph = nx.gnp_random_graph(num_nodes, density, seed=seed)
    edge_index, _ = tiny_graphs.undirected(list(graph.edges), num_nodes)
    generator = torch.Generator().manual_seed(seed)
    weight = 0.05 + 3 * torch.rand(graph.number_of_edges(), generator=generator).double()
    return graph, edge_index, weight.repeat(2)


@given(
    seed=st.integers(0, 10**6),
    num_nodes=st.integers(1, 25),
    density=st.sampled_from([0.1, 0.3, 0.6, 1.0]),
    method=st.sampled_from(METHODS),
    weighted=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_equals_graph_ricci_curvature(
    graph_ricci_curvature, seed, num_nodes, density, method, weighted
):
    graph, edge_index, edge_weight = random_graph(seed, num_nodes, density)
    if weighted:
        for (i, j), value in zip(graph.edges, edge_weight.tolist(), strict=False):
            graph[i][j]["weight"] = value
    oracle = graph_ricci_curvature(graph, method=method)
    oracle.compute_ricci_curvature()
    expected = [oracle.G[i][j]["formanCurvature"] for i, j in graph.edges]
    expected = torch.tensor(expected, dtype=torch.float64).repeat(2)
    # In any order of the columns.
    order = torch.randperm(expected.numel(), generator=torch.Generator().manual_seed(seed))
    weight = edge_weight[order] if weighted else torch.ones_like(edge_weight)
    curvature = forman_curvature(edge_index[:, order], weight, num_nodes, method)
    torch.testing.assert_close(curvature, expected[order], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("graph", "method", "expected"),
    [
        (tiny_graphs.ring(5), "1d", [0.0] * 5),  # 4 - 2 - 2
        (tiny_graphs.ring(5), "augmented", [0.0] * 5),
        (tiny_graphs.ring(3), "augmented", [3.0] * 3),  # 2 + one triangle
        (tiny_graphs.ring(4), "balanced", [1.0] * 4),  # 1 + 1 - 2 + (1 + 1) / (1 * 2)
        (tiny_graphs.ring(5), "balanced", [0.0] * 5),
        (tiny_graphs.ring(3), "balanced", [1.5] * 3),  # 1 + 1 - 2 + 2 / 2 + 1 / 2
        (tiny_graphs.star(4), "1d", [-1.0] * 4),  # 4 - 4 - 1
        (tiny_graphs.star(4), "balanced", [0.0] * 4),
        (tiny_graphs.triangle_with_tail(), "1d", [0.0, -1.0, -1.0, 0.0]),
        (tiny_graphs.triangle_with_tail(), "augmented", [3.0, 2.0, 2.0, 0.0]),
        # 01: as in a triangle; 02: 1 + 2/3 - 2 + 2/3 + 1/2; 23 ends in a node of degree one.
        (tiny_graphs.triangle_with_tail(), "balanced", [1.5, 5 / 6, 5 / 6, 0.0]),
        (tiny_graphs.two_parts(), "augmented", [3.0] * 6),
    ],
)
def test_by_hand(graph, method, expected):
    curvature = forman_curvature(graph[0], None, graph[1], method)
    torch.testing.assert_close(curvature, torch.tensor(expected * 2))


def test_weights_by_hand():
    edge_index, num_nodes = tiny_graphs.triangle_with_tail()
    weight = torch.tensor([4.0, 1.0, 0.25, 9.0]).repeat(2)
    curvature = forman_curvature(edge_index, weight, num_nodes)
    # 01: 2 + 16; 02: 2 + 1 - 1/3; 12: 2 + 1/16 - (1/2) / 3; 23: 2 - 3 (1 + 2).
    expected = torch.tensor([18.0, 8 / 3, 2 + 1 / 16 - 1 / 6, -7.0]).repeat(2)
    torch.testing.assert_close(curvature, expected)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("graph", [tiny_graphs.empty(), tiny_graphs.single_node()])
def test_a_graph_without_edges_has_no_curvature(graph, method):
    edge_index, num_nodes = graph
    assert forman_curvature(edge_index, None, num_nodes, method).shape == (0,)
    assert forman_curvature(edge_index, torch.empty(0), None, method).shape == (0,)


@pytest.mark.parametrize("method", METHODS)
def test_both_directions_are_equal_bitwise_and_isolated_nodes_do_not_matter(method):
    _, edge_index, edge_weight = random_graph(3, 30, 0.3)
    curvature = forman_curvature(edge_index, edge_weight, None, method)
    forward, backward = curvature.chunk(2)
    assert torch.equal(forward, backward)
    assert torch.equal(curvature, forman_curvature(edge_index, edge_weight, 50, method))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("method", METHODS)
def test_type_follows_the_weights(method, dtype):
    edge_index, num_nodes = tiny_graphs.ring()
    weight = torch.ones(10, dtype=dtype)
    assert forman_curvature(edge_index, weight, num_nodes, method).dtype == dtype
    assert forman_curvature(edge_index, None, num_nodes, method).dtype == torch.float32


RING = tiny_graphs.ring(3)[0]


@pytest.mark.parametrize(
    ("edge_index", "options", "message"),
    [
        (RING.repeat(1, 2), {}, r"repeated edges \(got 6\).*utils.coalesce"),
        (RING[:, :4], {}, "got 2 edges without their reverse, such as 1 -> 2.*to_und"),
        (RING, {"edge_weight": torch.zeros(6)}, "positive.*got 6 zeros of 6.*drop"),
        (RING, {"edge_weight": torch.arange(1.0, 7.0)}, "differ, by up to 3.*to_und"),
    ],
)
def test_refuses(edge_index, options, message):
    with pytest.raises(ValueError, match=message):
        forman_curvature(edge_index, **options)


def test_a_curvature_out_of_range_is_refused():
    edge_index, _ = tiny_graphs.triangle_with_tail()
    weight = torch.full((8,), 1e180, dtype=torch.float64)
    with pytest.raises(ValueError, match="'edge_weight' to have a 'augmented' curvature.*1e\\+180"):
        forman_curvature(edge_index, weight)
    expected = forman_curvature(edge_index, weight / 1e180, method="1d")
    actual = forman_curvature(edge_index, weight, method="1d")
    torch.testing.assert_close(actual, expected)
    with pytest.raises(ValueError, match="within torch.float32.*torch.float64"):
        forman_curvature(edge_index, torch.full((8,), 1e25))


@pytest.mark.parametrize("measure", [forman_curvature, jaccard_overlap])
def test_a_prepared_graph_is_as_good_as_its_edges(measure):
    path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    structure = GraphStructure(path, 4)
    expected = measure(path, num_nodes=4)
    assert torch.equal(measure(structure), expected)
    assert torch.equal(measure(structure, num_nodes=4), expected)
    with pytest.raises(ValueError, match="'num_nodes' to be 4, as the prepared"):
        measure(structure, num_nodes=3)


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
@pytest.mark.parametrize("measure", [forman_curvature, jaccard_overlap])
def test_a_sparse_matrix_is_refused_since_its_values_would_be_lost(measure, layout):
    edge_index = torch.tensor([[0, 1], [1, 0]])
    matrix = torch.sparse_coo_tensor(edge_index, torch.tensor([2.0, 2.0]), (2, 2))
    with pytest.raises(ValueError, match="'edge_index' to be of integer type"):
        measure(matrix if layout == torch.sparse_coo else matrix.to_sparse_csr())
