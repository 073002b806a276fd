import pytest
import torch
from tiny_graphs import ring
from transport.shapes import spiral, swiss_roll

from jsem_pyg.diffusion import dense_laplacian
from jsem_pyg.graph import knn_graph
from jsem_pyg.testing import random_graph
from jsem_pyg.transport import CommuteCost
from jsem_pyg.transport.costs import commute as commute_cost


def coordinates(edge_index, weight, num_nodes):
    """All coordinates [N, N - 1], slowest first, by all eigenpairs."""
    weight = weight.double()
    value, vector = torch.linalg.eigh(dense_laplacian(edge_index, weight, num_nodes))
    degree = weight.new_zeros(num_nodes).index_add(0, edge_index[0], weight)
    return vector[:, 1:] * value[1:] ** -0.5 * (degree.sum() / degree[:, None]).sqrt()


def squared_distances(x):
    return torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist").square()


def relative(actual, expected):
    return float((actual.double() - expected).norm() / expected.norm())


@pytest.fixture(scope="module")
def graph():
    return knn_graph(swiss_roll(450)[0].double(), 8, "l2")


@pytest.mark.parametrize(("dtype", "tol"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_is_the_commute_time(dtype, tol):
    edge_index, weight = random_graph(30, 0.3, num_isolated=0)
    factor = CommuteCost()(edge_index, weight.to(dtype))
    inverse = torch.linalg.pinv(dense_laplacian(edge_index, weight.to(dtype).double(), 30, None))
    norm = inverse.diagonal()
    expected = weight.to(dtype).double().sum() * (norm[:, None] + norm - 2 * inverse)
    assert relative(factor.dense(), expected) < tol
    assert factor.error < tol


@pytest.mark.parametrize("unit", [1e-30, 1e30])
def test_the_unit_of_the_weights_does_not_matter(unit):
    edge_index, weight = random_graph(30, 0.3, num_isolated=0)
    expected = CommuteCost()(edge_index, weight.double()).dense()
    assert relative(CommuteCost()(edge_index, unit * weight.double()).dense(), expected) < 1e-12


@pytest.mark.parametrize("is_dense", [True, False])
def test_is_that_of_the_slowest_modes(graph, is_dense, monkeypatch):
    monkeypatch.setattr(commute_cost, "DENSE_LIMIT", 1000 if is_dense else 10)
    factor = CommuteCost(20)(*graph)
    every = coordinates(*graph, 450)
    assert factor.rank == 20
    assert relative(factor.dense(), squared_distances(every[:, :20])) < 1e-5
    error = relative(factor.dense(), squared_distances(every))
    assert factor.error / 2 < error < 2 * factor.error


def test_the_ring_whose_modes_are_pairs():
    edge_index, num_nodes = ring(500)
    dense = CommuteCost(30)(edge_index, torch.ones(1000, dtype=torch.float64)).dense()
    # The same for all pairs as far apart: k (500 - k) without the cut.
    for k in (1, 100, 250):
        column = dense.diagonal(k)
        torch.testing.assert_close(column, column[:1].expand_as(column), rtol=1e-4, atol=1e-4)
    assert float(dense[0, 250]) == pytest.approx(2 * 250 * 250, rel=0.03)
    assert num_nodes == 500


def test_float32_weights(graph):
    edge_index, weight = graph
    exact = CommuteCost(10)(edge_index, weight)
    narrow = CommuteCost(10)(edge_index, weight.float())
    assert narrow.x.dtype == torch.float32
    assert relative(narrow.dense(), exact.dense()) < 1e-4


@pytest.mark.parametrize("rank", [3, 32])
def test_gradients_in_the_weights(rank):
    edge_index, weight = random_graph(8, 0.6, num_isolated=0)
    pair = edge_index[:, edge_index[0] < edge_index[1]]
    both = torch.cat([pair, pair.flip(0)], 1)
    half = weight[edge_index[0] < edge_index[1]].clone().requires_grad_()
    cost = CommuteCost(rank)

    def gram(half):
        x = cost(both, half.repeat(2)).x
        return x @ x.T

    assert torch.autograd.gradcheck(gram, half)


def test_refuses_a_gradient_of_a_large_graph(graph):
    edge_index, weight = graph
    with pytest.raises(ValueError, match=r"without a gradient.*450 nodes.*detach"):
        CommuteCost()(edge_index, weight.clone().requires_grad_())


def test_the_seed_decides(graph):
    state = torch.get_rng_state()
    first, again = (CommuteCost(10)(*graph).x for _ in range(2))
    assert torch.equal(first, again)
    first, other = (CommuteCost(10, seed=seed)(*graph).dense() for seed in (0, 1))
    assert relative(other, first) < 1e-5
    assert torch.equal(torch.get_rng_state(), state)


def test_a_spiral_is_unrolled():
    x, position = spiral(600)
    factor = CommuteCost(rank=1)(x)
    ranks = factor.x[:, 0].argsort().argsort().double(), position.argsort().argsort().double()
    assert abs(float(torch.corrcoef(torch.stack(ranks))[0, 1])) > 0.999


def test_says_when_modes_have_not_settled(graph, monkeypatch, caplog):
    from jsem_pyg.transport.costs import low_spectrum

    monkeypatch.setattr(low_spectrum, "MOST_FLOWS", 1)
    CommuteCost(10)(*graph)
    assert "relative residual" in caplog.text


def test_refuses():
    with pytest.raises(ValueError, match="rank"):
        CommuteCost(rank=0)
    with pytest.raises(TypeError, match="seed"):
        CommuteCost(seed=0.5)


@pytest.mark.parametrize("is_dense", [True, False])
def test_parts_that_hardly_hang_together_are_refused(is_dense, monkeypatch):
    """What inverts a rounded Laplacian knows no commute time: one was 0.87 times as long."""
    monkeypatch.setattr(commute_cost, "DENSE_LIMIT", 1000 if is_dense else 10)
    edge_index, num_nodes = ring(40)
    both = torch.cat([edge_index, edge_index + 40, torch.tensor([[0, 40], [40, 0]])], 1)
    for link in (1e-14, 1e-20):
        weight = torch.ones(both.size(1), dtype=torch.float64)
        weight[-2:] = link
        with pytest.raises(ValueError, match=r"slowest mode has an eigenvalue of .* HeatCost"):
            CommuteCost(5)(both, weight)
    assert num_nodes == 40


def test_a_light_link_has_its_commute_time():
    edge_index, _ = ring(40)
    both = torch.cat([edge_index, edge_index + 40, torch.tensor([[0, 40], [40, 0]])], 1)
    weight = torch.ones(both.size(1), dtype=torch.float64)
    weight[-2:] = 1e-6
    found = CommuteCost(80)(both, weight).dense()[0, 40]
    assert float(found) == pytest.approx(float(weight.sum()) * 1e6, rel=1e-5)


def test_a_second_derivative_is_refused():
    """It was zero in part, as eigenvectors have first derivatives only."""
    edge_index, _ = ring(5)
    half = torch.rand(5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.5
    order = edge_index.amin(0) + edge_index.amax(0)  # an edge's number in either direction
    place = order.unique(return_inverse=True)[1]

    def loss(half):
        x = CommuteCost()(edge_index, half[place]).x
        return (x @ x.T).square().sum()

    with pytest.raises(NotImplementedError, match="eigenvectors of a cost to be differentiated"):
        torch.autograd.functional.hessian(loss, half)


def test_without_weights_it_is_that_of_ones():
    edge_index = random_graph(30, 0.3, num_isolated=0)[0]
    expected = CommuteCost()(edge_index, torch.ones(edge_index.size(1))).dense()
    assert torch.equal(CommuteCost()(edge_index).dense(), expected)
