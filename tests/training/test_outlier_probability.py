import torch
from torch_geometric.data import Data

from jsem_pyg.graph import knn_graph
from jsem_pyg.training import outlier_probability


def with_copies(num_copies=6):
    """Points in a crowd, one of which comes several times."""
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(30, 4, generator=draw)
    x = torch.cat([x, x[:1].expand(num_copies - 1, 4)])
    edge_index, edge_weight = knn_graph(x, 4)
    return Data(x=x, edge_index=edge_index, edge_weight=edge_weight)


def test_it_is_the_share_of_walks_that_are_at_copies():
    data = with_copies()
    weight = torch.zeros(35, 35, dtype=torch.float64)
    weight[data.edge_index[0], data.edge_index[1]] = data.edge_weight.double()
    walk = torch.matrix_exp(-3 * (torch.eye(35) - weight / weight.sum(1, keepdim=True)))
    same = (data.x[:, None] == data.x).all(-1)
    expected = (walk * same).sum(1)
    found = outlier_probability(data, t=3.0, num_probes=20_000)
    torch.testing.assert_close(found.double(), expected, atol=0.02, rtol=0)
    rough = outlier_probability(data, t=3.0)
    torch.testing.assert_close(rough.double(), expected, atol=0.15, rtol=0)


def test_points_without_words_and_without_neighbours_belong_nowhere():
    x = torch.cat([torch.zeros(20, 4), torch.randn(40, 4)])
    x = torch.cat([x, torch.ones(1, 4)])
    edges = [knn_graph(part, 5, metric="l2", kernel=None)[0] for part in (x[:20], x[20:60])]
    edge_index = torch.cat([edges[0], edges[1] + 20], dim=1)
    found = outlier_probability(Data(x=x, edge_index=edge_index), t=20.0)
    assert found[:20].min() > 0.99
    assert found[20:60].mean() < 0.2
    assert found[60] > 0.99


def test_follows_from_the_seed():
    data = with_copies()
    state = torch.get_rng_state()
    first, again, other = (outlier_probability(data, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), state)
    assert first.min() >= 0
    assert first.max() <= 1
