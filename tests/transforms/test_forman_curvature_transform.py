import pytest
import tiny_graphs
import torch
from torch_geometric.data import Data

from jsem_pyg.curvature import forman_curvature, robust_standardize
from jsem_pyg.transforms import FormanCurvature


def tailed(**attributes):
    edge_index, num_nodes = tiny_graphs.triangle_with_tail()
    return Data(edge_index=edge_index, num_nodes=num_nodes, **attributes)


@pytest.mark.parametrize("method", ["augmented", "1d", "balanced"])
def test_writes_the_curvature_and_leaves_its_input_alone(method):
    data = tailed(edge_weight=torch.tensor([1.0, 2.0, 3.0, 4.0]).repeat(2))
    curvature = forman_curvature(data.edge_index, data.edge_weight, 4, method)
    raw = FormanCurvature(method, norm=False)(data)
    normed = FormanCurvature(method)(data)
    assert torch.equal(raw.edge_attr, curvature[:, None])
    assert torch.equal(normed.edge_attr, robust_standardize(curvature)[:, None])
    assert data.edge_attr is None


def test_appends_to_edge_attr_or_replaces_it():
    transform = FormanCurvature(norm=False)
    column = transform(tailed()).edge_attr
    flat, wide = torch.rand(8), torch.rand(8, 2)
    assert torch.equal(
        transform(tailed(edge_attr=flat)).edge_attr, torch.cat([flat[:, None], column], 1)
    )
    assert torch.equal(transform(tailed(edge_attr=wide)).edge_attr, torch.cat([wide, column], 1))
    replaced = FormanCurvature(norm=False, cat=False)(tailed(edge_attr=wide))
    assert torch.equal(replaced.edge_attr, column)


def test_type_follows_edge_attr_then_x():
    transform = FormanCurvature()
    assert transform(tailed()).edge_attr.dtype == torch.float32
    assert transform(tailed(x=torch.rand(4, 1).double())).edge_attr.dtype == torch.float64
    alone = transform(tailed(x=torch.rand(4, 1).double())).edge_attr
    half = transform(tailed(x=torch.rand(4, 1), edge_attr=torch.rand(8, 1).double())).edge_attr
    assert torch.equal(half[:, 1:], alone)  # to the last digit of float64
    categories = transform(tailed(edge_attr=torch.arange(8))).edge_attr
    assert categories.dtype == torch.float32
    assert categories[:, 0].tolist() == list(range(8))


def test_refuses():
    with pytest.raises(ValueError, match="'method' to be one of"):
        FormanCurvature(method="ollivier")
    with pytest.raises(ValueError, match="got 8 zeros of 8"):
        FormanCurvature()(tailed(edge_weight=torch.zeros(8)))
