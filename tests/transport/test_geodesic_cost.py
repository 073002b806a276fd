import pytest
import torch
from torch_geometric.data import Data
from transport.problems import relative
from transport.shapes import spiral, swiss_roll

from jsem_pyg.neighbors import knn_graph
from jsem_pyg.transport import GeodesicCost


def path(num_nodes):
    node = torch.arange(num_nodes - 1)
    pair = torch.stack([node, node + 1])
    return torch.cat([pair, pair.flip(0)], 1)


def shortest(edge_index, length, num_nodes):
    distance = torch.full((num_nodes, num_nodes), torch.inf, dtype=torch.float64)
    distance[edge_index[0], edge_index[1]] = length.double()
    distance.fill_diagonal_(0)
    for k in range(num_nodes):
        distance = torch.minimum(distance, distance[:, k, None] + distance[k])
    return distance


@pytest.mark.parametrize("num_nodes", [2, 5, 300])
@pytest.mark.parametrize(("dtype", "tol"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_a_path_is_exact(num_nodes, dtype, tol):
    half = torch.linspace(0.5, 2, num_nodes - 1, dtype=dtype)
    place = torch.cat([torch.zeros(1), half.double().cumsum(0)])
    factor = GeodesicCost()(path(num_nodes), half.repeat(2))
    assert factor.rank == 1
    assert factor.error < tol
    expected = (place[:, None] - place).square().numpy()
    assert relative(factor.dense(), torch.from_numpy(expected)) < tol


def test_points_in_a_plane_are_exact_when_all_are_joined():
    x = torch.randn(150, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    factor = GeodesicCost(num_landmarks=12, k=149)(x)
    assert factor.rank == 2
    assert relative(factor.dense(), torch.cdist(x, x).square()) < 1e-10


@pytest.mark.parametrize("shape", [spiral, swiss_roll])
def test_the_error_is_that_of_the_whole_matrix_within_a_factor_of_two(shape):
    x = shape(400)[0].double()
    edge_index, _ = knn_graph(x, 10, "l2")
    factor = GeodesicCost()(x)
    length = (x[edge_index[0]] - x[edge_index[1]]).norm(dim=1)
    error = relative(factor.dense(), shortest(edge_index, length, 400).square())
    assert factor.error / 2 < error < 2 * factor.error
    assert error < 0.05


def test_columns_that_do_harm_are_left_out():
    x = swiss_roll(500)[0]
    factor = GeodesicCost(tol=0)(x)
    assert factor.rank < 10
    data = Data(x=x, edge_index=factor.edge_index)
    assert all(factor.error <= GeodesicCost(rank=r, tol=0)(data).error for r in range(1, 11))


def test_lengths_come_from_where_they_are_said_to():
    x = torch.tensor([[0.0], [1.0], [3.0]])
    edge_index = path(3)
    given = Data(x=x, edge_index=edge_index)
    ends = {
        GeodesicCost()(given): 9.0,
        GeodesicCost()(given, torch.tensor([4.0, 5.0]).repeat(2)): 81.0,
        GeodesicCost()(edge_index): 4.0,
        GeodesicCost()(edge_index, torch.tensor([1.0, 4.0]).repeat(2)): 25.0,
    }
    for factor, squared in ends.items():
        assert float(factor.dense()[0, 2]) == pytest.approx(squared)


def test_by_cosine_lengths_are_chords():
    angle = torch.linspace(0, 1, 200, dtype=torch.float64)
    x = torch.stack([angle.cos(), angle.sin()], 1) * torch.linspace(1, 9, 200)[:, None]
    factor = GeodesicCost(metric="cosine", k=2)(x)
    assert float(factor.dense()[0, -1]) == pytest.approx(1.0, rel=1e-3)


def test_no_gradient_flows():
    x = swiss_roll(60)[0].requires_grad_()
    assert not GeodesicCost()(x).x.requires_grad
    with pytest.raises(ValueError, match="'edge_length' without a gradient"):
        GeodesicCost()(path(3), torch.ones(4, requires_grad=True))


def test_refuses():
    with pytest.raises(ValueError, match="'num_landmarks' to be larger than 'rank'"):
        GeodesicCost(rank=50)
    with pytest.raises(ValueError, match="non-negative"):
        GeodesicCost()(path(3), -torch.ones(4))
