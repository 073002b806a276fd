"""What every measure of edges takes: edges, or a graph that was prepared before."""

import pytest
import torch

from jsem_pyg.curvature import forman_curvature, jaccard_overlap
from jsem_pyg.graph import GraphStructure

MEASURES = [
    forman_curvature,
    jaccard_overlap,
]


@pytest.mark.parametrize("measure", MEASURES)
def test_a_prepared_graph_is_as_good_as_its_edges(measure):
    path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    structure = GraphStructure(path, 4)
    expected = measure(path, num_nodes=4)
    assert torch.equal(measure(structure), expected)
    assert torch.equal(measure(structure, num_nodes=4), expected)
    with pytest.raises(ValueError, match="'num_nodes' to be 4, as the prepared"):
        measure(structure, num_nodes=3)


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
@pytest.mark.parametrize("measure", MEASURES)
def test_a_sparse_matrix_is_refused_since_its_values_would_be_lost(measure, layout):
    edge_index = torch.tensor([[0, 1], [1, 0]])
    matrix = torch.sparse_coo_tensor(edge_index, torch.tensor([2.0, 2.0]), (2, 2))
    with pytest.raises(ValueError, match="'edge_index' to be of integer type"):
        measure(matrix if layout == torch.sparse_coo else matrix.to_sparse_csr())
