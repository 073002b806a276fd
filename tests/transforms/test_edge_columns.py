"""`FormanCurvature` and `EdgeGeometry`: what the functions compute, as columns of edges."""

import pytest
import torch
import torch.nn.functional as F
from dense import exact_heat_diffusion
from laws import random_graph
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import Compose

from jsem_pyg.curvature import forman_curvature, jaccard_overlap, robust_standardize
from jsem_pyg.transforms import EdgeGeometry, FaissKNNGraph, FormanCurvature


def graph(seed=0, num_nodes=20, dtype=torch.float32, **attributes):
    edge_index, weight = random_graph(num_nodes, 0.3, num_isolated=2, seed=seed, dtype=dtype)
    x = torch.randn(num_nodes, 4, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    return Data(x=x, edge_index=edge_index, edge_weight=weight, **attributes)


@pytest.mark.parametrize("method", ["augmented", "1d", "balanced"])
def test_curvature_is_written_and_the_input_left_alone(method):
    data = graph()
    curvature = forman_curvature(data.edge_index, data.edge_weight, 20, method)
    raw, normed = (FormanCurvature(method, norm=norm)(data) for norm in (False, True))
    assert torch.equal(raw.edge_attr, curvature[:, None])
    assert torch.equal(normed.edge_attr, robust_standardize(curvature)[:, None])
    assert data.edge_attr is None


def geometry(data, t=3.0):
    edge_index, weight, size = data.edge_index, data.edge_weight, data.num_nodes
    y = exact_heat_diffusion(data.x, edge_index, weight, t)
    return {
        "jaccard": jaccard_overlap(edge_index, size),
        "diffusion_cosine": F.cosine_similarity(y[edge_index[0]], y[edge_index[1]]),
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_geometry_comes_in_the_order_asked_for_after_the_columns_there_are(dtype):
    data = graph(dtype=dtype)
    expected = torch.stack([each.to(dtype) for each in geometry(data).values()], dim=1)
    raw = EdgeGeometry(norm=False)(data)
    assert raw.edge_attr.dtype == dtype
    torch.testing.assert_close(raw.edge_attr, expected)
    normed = EdgeGeometry()(data).edge_attr
    for column, values in zip(normed.T, expected.T, strict=True):
        torch.testing.assert_close(column, robust_standardize(values), atol=1e-4, rtol=1e-4)
    data.edge_attr = torch.rand(data.num_edges, dtype=dtype)
    names, expected = ["diffusion_cosine", "jaccard"], geometry(data, t=0.5)
    result = EdgeGeometry(names, t=0.5, norm=False)(data).edge_attr
    wanted = [data.edge_attr, *(expected[name].to(dtype) for name in names)]
    torch.testing.assert_close(result, torch.stack(wanted, dim=1))


def test_existing_columns_stay_or_are_replaced_and_types_follow_them_then_x():
    transform, edges = FormanCurvature(norm=False), graph().num_edges
    column = transform(graph()).edge_attr
    for kept in (torch.rand(edges), torch.rand(edges, 2), torch.arange(edges)):
        result = transform(graph(edge_attr=kept)).edge_attr
        assert torch.equal(result[:, -1:], column)
        assert torch.equal(result[:, :-1], kept.view(edges, -1).float())
    replaced = FormanCurvature(norm=False, cat=False)(graph(edge_attr=torch.rand(edges, 2)))
    assert torch.equal(replaced.edge_attr, column)
    assert transform(graph(dtype=torch.float64)).edge_attr.dtype == torch.float64
    kept = torch.rand(edges, dtype=torch.float64)
    assert transform(graph(edge_attr=kept)).edge_attr.dtype == torch.float64


@pytest.mark.parametrize("make", [FormanCurvature, EdgeGeometry])
@pytest.mark.parametrize("norm", [True, False])
def test_a_batch_gives_what_its_graphs_give(make, norm):
    transform = Compose([FaissKNNGraph(k=3), make(norm=norm)])
    generator = torch.Generator().manual_seed(0)
    graphs = [
        Data(x=scale * torch.randn(n, 4, generator=generator).double())
        for n, scale in ((9, 1), (14, 5), (5, 1))
    ]
    result = transform(Batch.from_data_list(graphs))
    for got, single in zip(result.to_data_list(), graphs, strict=True):
        torch.testing.assert_close(got.edge_attr, transform(single).edge_attr, rtol=1e-4, atol=1e-4)


def test_refuses():
    for features in ("jaccard", None, []):
        with pytest.raises(TypeError, match="'features' to be a list of names"):
            EdgeGeometry(features)
    with pytest.raises(ValueError, match="'features' to be one of 'jaccard', .*got 'ollivier'"):
        EdgeGeometry(["jaccard", "ollivier"])
    with pytest.raises(ValueError, match="'data.edge_attr' to have shape"):
        FormanCurvature()(graph(edge_attr=torch.rand(3)))
    with pytest.raises(ValueError, match="'data' to have 'x'"):
        EdgeGeometry()(Data(edge_index=graph().edge_index))
