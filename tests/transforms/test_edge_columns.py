"""What `FormanCurvature` and `EdgeGeometry` share: scales that are remembered."""

import pytest
import torch
from laws import random_graph
from torch_geometric.data import Batch, Data, HeteroData
from torch_geometric.transforms import Compose

from jsem_pyg.curvature import robust_standardize
from jsem_pyg.transforms import EdgeGeometry, FaissKNNGraph, FormanCurvature

TRANSFORMS = [FormanCurvature, EdgeGeometry]


def graph(seed, num_nodes=20, probability=0.3):
    edge_index, weight = random_graph(num_nodes, probability, seed=seed)
    x = torch.randn(num_nodes, 4, generator=torch.Generator().manual_seed(seed)).double()
    return Data(x=x, edge_index=edge_index, edge_weight=weight)


@pytest.mark.parametrize("make", TRANSFORMS)
@pytest.mark.parametrize("norm", [True, False])
def test_a_batch_gives_what_its_graphs_give(make, norm):
    transform = Compose([FaissKNNGraph(k=3), make(norm=norm)])
    generator = torch.Generator().manual_seed(0)
    graphs = [
        Data(x=scale * torch.randn(n, 3, generator=generator).double())
        for n, scale in ((9, 1), (14, 5), (5, 1))
    ]
    result = transform(Batch.from_data_list(graphs))
    for got, single in zip(result.to_data_list(), graphs, strict=True):
        torch.testing.assert_close(got.edge_attr, transform(single).edge_attr, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("make", TRANSFORMS)
class TestFitted:
    def test_scales_the_graph_it_was_fitted_on_as_before(self, make):
        transform = make()
        expected = transform(graph(0)).edge_attr
        assert transform.fit(graph(0)) is transform
        torch.testing.assert_close(transform(graph(0)).edge_attr, expected)

    def test_scales_new_graphs_the_same_way(self, make):
        old, new = graph(0), graph(1, num_nodes=30, probability=0.6)
        raw_old, raw_new = (make(norm=False)(each).edge_attr for each in (old, new))
        transform = make().fit(old)
        result = transform(new).edge_attr
        # Where both graphs have the same number, it gets the same score; larger ones, larger ones.
        scaled = torch.cat([transform(old).edge_attr, result])
        for raw, score in zip(torch.cat([raw_old, raw_new]).T, scaled.T, strict=True):
            order = raw.argsort()
            assert (score[order].diff() >= 0).all()
            equal = raw[order].diff() == 0
            assert (score[order].diff()[equal] == 0).all()
        assert not torch.allclose(result, make()(new).edge_attr, atol=0.05)

    def test_remembers_the_edges_of_several_graphs_together(self, make):
        graphs = [graph(0), graph(1, num_nodes=12), graph(2, num_nodes=9, probability=0.0)]
        raw = torch.cat([make(norm=False)(each).edge_attr for each in graphs])
        expected = torch.stack([robust_standardize(column) for column in raw.T], dim=1)
        whole = Batch.from_data_list(graphs)
        for data in (graphs, iter(graphs), whole):
            transform = make().fit(data)
            apart = torch.cat([transform(each).edge_attr for each in graphs])
            torch.testing.assert_close(apart, expected)
            torch.testing.assert_close(transform(whole).edge_attr, apart)


@pytest.mark.parametrize("make", TRANSFORMS)
def test_refuses_to_be_fitted(make):
    with pytest.raises(ValueError, match="nothing to remember without a scale .got False"):
        make(norm=False).fit(graph(0))
    with pytest.raises(ValueError, match="to be fitted on .got 2 graph.s. and none"):
        make().fit([graph(0, probability=0.0)] * 2)
    with pytest.raises(ValueError, match="to be fitted on .got 0 graph.s. and none"):
        make().fit([])
    for data in (HeteroData(), [graph(0), None], 3):
        with pytest.raises(TypeError, match="'data' to be a torch_geometric.data.Data"):
            make().fit(data)
    with pytest.raises(ValueError, match="to have an 'edge_index'"):
        make().fit(Data(num_nodes=3))
