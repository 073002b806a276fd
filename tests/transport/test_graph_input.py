import pytest
import torch
from laws import random_graph
from tiny_graphs import star, two_parts
from torch_geometric import EdgeIndex
from torch_geometric.data import Data

from jsem_pyg.graph import GraphStructure
from jsem_pyg.neighbors import knn_graph
from jsem_pyg.transport import AdjacencyCost, GeodesicCost, HeatCost, gromov_wasserstein

COSTS = [HeatCost(2.0), GeodesicCost()]
EDGES, N = star()


def dense(cost, *arguments, **more):
    return cost(*arguments, **more).dense()


@pytest.mark.parametrize("cost", [*COSTS, AdjacencyCost])
def test_every_form_of_a_graph_is_the_same_graph(cost):
    weight = torch.tensor([0.5, 1.0, 1.5, 2.0]).repeat(2)
    expected = dense(cost, EDGES, weight)
    coo = torch.sparse_coo_tensor(EDGES.flip(0), weight, (N, N))
    forms = [
        (EDGES.int(), weight),
        (EdgeIndex(EDGES, sparse_size=(N, N)), weight),
        (GraphStructure(EDGES, N), weight),
        (coo,),
        (coo.to_sparse_csr(),),
    ]
    for form in forms:
        torch.testing.assert_close(dense(cost, *form), expected, rtol=1e-4, atol=1e-5)


def test_data_brings_its_weights():
    weight = torch.tensor([0.5, 1.0, 1.5, 2.0]).repeat(2)
    coo = torch.sparse_coo_tensor(EDGES.flip(0), weight, (N, N))
    for cost, stored in (
        (HeatCost(2.0), {"edge_index": EDGES, "edge_weight": weight}),
        (HeatCost(2.0), {"edge_index": EDGES, "edge_weight": weight[:, None]}),
        (AdjacencyCost, {"edge_index": EDGES, "edge_weight": weight}),
        (AdjacencyCost, {"adj_t": coo}),
    ):
        data = Data(**stored, num_nodes=N)
        torch.testing.assert_close(dense(cost, data), dense(cost, EDGES, weight))
        with pytest.raises(ValueError, match="edge_weight"):
            cost(data, weight)


@pytest.mark.parametrize("cost", COSTS)
def test_points_get_the_graph_of_their_neighbors(cost):
    x = torch.randn(30, 3, generator=torch.Generator().manual_seed(0))
    edge_index, weight = knn_graph(x, 10, "l2")
    by_points = cost(x)
    assert torch.equal(by_points.edge_index, edge_index)
    torch.testing.assert_close(by_points.dense(), dense(cost, Data(pos=x)))
    if not isinstance(cost, GeodesicCost):
        torch.testing.assert_close(by_points.dense(), dense(cost, edge_index, weight))


def test_a_node_without_mass_does_not_disturb_the_start():
    edge_index, _ = random_graph(12, probability=0.4)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    factors = HeatCost(2.0)(edge_index), HeatCost(2.0)(order[edge_index])
    p = torch.ones(12).index_fill(0, torch.tensor([3]), 0.0) / 11
    q = torch.zeros(12).index_copy(0, order, p)
    expected = order.index_fill(0, torch.tensor([3]), -1)
    assert gromov_wasserstein(*factors, p=p, q=q).argmax().tolist() == expected.tolist()


@pytest.mark.parametrize("cost", COSTS)
@pytest.mark.parametrize("source", [torch.zeros(1, 2), torch.empty(2, 0, dtype=torch.int64)])
def test_one_node(cost, source):
    num_nodes = None if source.is_floating_point() else 1
    factor = cost(source, None, num_nodes)
    assert factor.num_points == 1
    assert bool(factor.x.isfinite().all())
    assert factor.error < 1e-6


@pytest.mark.parametrize("cost", COSTS)
def test_the_order_of_the_nodes_does_not_matter(cost):
    edge_index, weight = random_graph(40, 0.15, num_isolated=0)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(1))
    place = order.argsort()
    expected = dense(cost, edge_index, weight)[order][:, order]
    actual = dense(cost, place[edge_index], weight)
    if isinstance(cost, GeodesicCost):  # which knows 40 nodes by 40 landmarks in another order
        torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-6)
    else:
        torch.testing.assert_close(actual, expected)


def test_says_what_is_missing():
    with pytest.raises(ValueError, match="edges in 'edge_index' or 'adj_t', or points in 'x'"):
        HeatCost()(Data(num_nodes=3))
    with pytest.raises(TypeError, match="Expected 'source' to be a Data"):
        HeatCost()([[0, 1], [1, 0]])
    with pytest.raises(ValueError, match="edges of a graph, with 'edge_weight'"):
        HeatCost()(torch.eye(3), torch.ones(2))
    with pytest.raises(ValueError, match="edges of a graph, with 'num_nodes'"):
        HeatCost()(torch.eye(3), num_nodes=3)
    with pytest.raises(ValueError, match="at least one node"):
        HeatCost()(torch.empty(2, 0, dtype=torch.int64))
    with pytest.raises(ValueError, match="a row for each of its 5 nodes"):
        HeatCost()(Data(x=torch.eye(3), edge_index=EDGES), num_nodes=5)


def test_refuses_a_graph_of_two_parts():
    cost = GeodesicCost()
    edge_index, _ = two_parts()
    with pytest.raises(ValueError, match=r"connected graph.*2 components.*connect=True"):
        cost(edge_index)
    with pytest.raises(ValueError, match="3 components"):
        cost(edge_index, num_nodes=7)
