import pytest
import torch

from jsem_pyg.neighbors import knn_hyperedges, knn_search


@pytest.mark.parametrize("metric", ["cosine", "l2"])
def test_every_point_with_its_neighbours(metric):
    x = torch.randn(20, 3, generator=torch.Generator().manual_seed(0))
    neighbor, _ = knn_search(x, 4, metric)
    expected = [{i, *near} for i, near in enumerate(neighbor.tolist())]
    found = [set() for _ in range(20)]
    for node, hyperedge in knn_hyperedges(x, 4, metric).t().tolist():
        found[hyperedge].add(node)
    assert found == expected
