import numpy as np
import pytest
import torch
from jax_cases import assert_same, by_jax, by_torch, jnp, make_case, prepare_graph
from tiny_graphs import ring, triangle_with_tail

from jsem_pyg.graph import GraphStructure


def test_a_structure_is_taken_as_it_is():
    structure = GraphStructure(*triangle_with_tail())
    graph = prepare_graph(structure)
    assert graph.structure is structure
    assert repr(graph) == "Graph(num_nodes=4, num_edges=8)"
    assert graph.row.dtype == jnp.int32
    np.testing.assert_array_equal(graph.col, structure.col)


@pytest.mark.slow
def test_repeated_edges_add_up():
    edge_index, num_nodes = ring()
    case = make_case((torch.cat([edge_index, edge_index[:, [0, 5]]], dim=1), num_nodes))
    case = case._replace(
        weight=np.linspace(1, 2, 5, dtype=np.float32)[[*range(5), *range(5), 3, 3]]
    )
    assert_same(by_jax(case), by_torch(case))


@pytest.mark.parametrize(
    ("edge_index", "num_nodes", "error", "match"),
    [
        (ring()[0], None, TypeError, r"'num_nodes' to be the number of nodes \(got None"),
        (ring()[0], 4, ValueError, "'edge_index'"),
        (np.zeros((2, 1), int), 4, ValueError, "self-loops"),
        (jnp.ones((2, 2)), 4, TypeError, r"'edge_index' to hold integers \(got float32"),
    ],
)
def test_bad_graphs_are_refused(edge_index, num_nodes, error, match):
    with pytest.raises(error, match=match):
        prepare_graph(edge_index, num_nodes)
