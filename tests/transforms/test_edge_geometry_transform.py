import pytest
import torch
import torch.nn.functional as F
from dense import exact_heat_diffusion
from laws import random_graph
from torch_geometric.data import Data

from jsem_pyg.curvature import jaccard_overlap, robust_standardize
from jsem_pyg.transforms import EdgeGeometry


def graph(seed=0, num_nodes=20, dtype=torch.float32):
    edge_index, weight = random_graph(num_nodes, 0.3, num_isolated=2, seed=seed, dtype=dtype)
    x = torch.randn(num_nodes, 4, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    return Data(x=x, edge_index=edge_index, edge_weight=weight)


def columns(data, t=3.0):
    edge_index, weight, size = data.edge_index, data.edge_weight, data.num_nodes
    y = exact_heat_diffusion(data.x, edge_index, weight, t)
    return {
        "jaccard": jaccard_overlap(edge_index, size),
        "diffusion_cosine": F.cosine_similarity(y[edge_index[0]], y[edge_index[1]]),
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_writes_the_functions_values_and_leaves_its_input_alone(dtype):
    data = graph(dtype=dtype)
    expected = torch.stack([each.to(dtype) for each in columns(data).values()], dim=1)
    raw = EdgeGeometry(norm=False)(data)
    assert raw.edge_attr.dtype == dtype
    torch.testing.assert_close(raw.edge_attr, expected)
    normed = EdgeGeometry()(data).edge_attr
    for column, values in zip(normed.T, expected.T, strict=True):
        torch.testing.assert_close(column, robust_standardize(values), atol=1e-4, rtol=1e-4)
    assert data.edge_attr is None


def test_features_come_in_the_order_asked_for_after_those_there_are():
    data = graph()
    data.edge_attr = torch.rand(data.num_edges)
    names = ["diffusion_cosine", "jaccard"]
    result = EdgeGeometry(names, t=0.5, norm=False)(data).edge_attr
    expected = columns(data, t=0.5)
    assert torch.equal(result[:, 0], data.edge_attr)
    wanted = torch.stack([expected[name] for name in names], dim=1)
    torch.testing.assert_close(result[:, 1:], wanted)
    assert EdgeGeometry(names, cat=False)(data).edge_attr.shape == (data.num_edges, 2)


@pytest.mark.parametrize(
    ("features", "error", "message"),
    [
        ("jaccard", TypeError, "list or tuple of names .got 'jaccard'.*brackets"),
        (None, TypeError, "list or tuple of names"),
        (
            ["jaccard", "ollivier"],
            ValueError,
            "'features' to be one of 'jaccard', .*got 'ollivier'",
        ),
        ([], ValueError, "at least one name"),
    ],
)
def test_refuses_features(features, error, message):
    with pytest.raises(error, match=message):
        EdgeGeometry(features)
