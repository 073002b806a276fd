import pytest
import torch
from dense import dense_laplacian
from laws import random_graph
from night import night
from tiny_graphs import ring, two_parts
from transport.problems import relative
from transport.shapes import spiral, swiss_roll

from jsem_pyg.neighbors import knn_graph
from jsem_pyg.transport import HeatCost


def heat_kernel(edge_index, weight, num_nodes, t):
    return torch.matrix_exp(-t * dense_laplacian(edge_index, weight.double(), num_nodes))


def cost_of(kernel, kind):
    norm = kernel.diagonal()
    return kernel if kind == "kernel" else norm[:, None] + norm - 2 * kernel


def roll(num_points, dtype=torch.float64, k=10):
    return knn_graph(swiss_roll(num_points)[0].to(dtype), k, "l2")


@pytest.mark.parametrize("t", [1.0, 30.0])
@pytest.mark.parametrize("kind", ["kernel", "sqdist"])
@pytest.mark.parametrize(("dtype", "tol"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_small_graphs_are_exact(t, kind, dtype, tol):
    edge_index, weight = random_graph(60, 0.1, num_isolated=2)
    factor = HeatCost(t, kind)(edge_index, weight.to(dtype), 60)
    expected = heat_kernel(edge_index, weight.to(dtype), 60, t)
    assert relative(factor.dense(), cost_of(expected, kind)) < tol
    assert factor.error < tol
    assert factor.kind == kind


@pytest.mark.parametrize("kind", ["kernel", "sqdist"])
@pytest.mark.parametrize("t", [2.0, 10.0, 40.0])
@pytest.mark.parametrize("dtype", [*night(torch.float32), torch.float64])
def test_the_error_is_that_of_the_whole_matrix_within_a_factor_of_two(kind, t, dtype, caplog):
    edge_index, weight = roll(600, dtype)
    factor = HeatCost(t, kind, num_anchors=100)(edge_index, weight)
    expected = cost_of(heat_kernel(edge_index, weight, 600, t), kind)
    error = relative(factor.dense(), expected)
    assert factor.error / 2 < error < 2 * factor.error
    assert (error > 0.05) == ("differs from its matrix" in caplog.text)


@pytest.mark.parametrize("kind", ["kernel", "sqdist"])
@pytest.mark.parametrize(
    "options", [{}, {"rank": 3}, {"num_anchors": 6}, {"num_anchors": 6, "rank": 3}]
)
def test_gradients_in_the_weights(kind, options):
    edge_index, weight = random_graph(10, 0.4, num_isolated=0)
    options = {"t": 2.0, "tol": 0, **options}
    cost = HeatCost(kind=kind, **options)
    half = weight[edge_index[0] < edge_index[1]].clone().requires_grad_()

    def dense(half):
        return off_diagonal(cost(*both_ways(edge_index, half)).dense())

    assert torch.autograd.gradcheck(dense, half)


def test_gradients_on_a_ring_whose_eigenvalues_are_pairs():
    edge_index, num_nodes = ring(6)
    cost = HeatCost(1.0, rank=3)  # the constant, and the first pair
    half = torch.ones(6, dtype=torch.float64, requires_grad=True)

    def dense(half):
        return cost(edge_index, half.repeat(2), num_nodes).dense()

    assert torch.autograd.gradcheck(dense, half)


def both_ways(edge_index, half):
    """An edge list sorted by its first half, and the weight of each edge in both directions."""
    pair = edge_index[:, edge_index[0] < edge_index[1]]
    return torch.cat([pair, pair.flip(0)], 1), half.repeat(2)


def off_diagonal(matrix):
    """Where the root within a distance has a derivative."""
    return matrix[~torch.eye(matrix.size(0), dtype=torch.bool)]


def test_parts_do_not_exchange_heat():
    edge_index, num_nodes = two_parts()
    kernel = HeatCost(3.0)(edge_index, num_nodes=num_nodes + 1).dense()
    assert float(kernel[:3, 3:].abs().max()) < 1e-6
    assert float(kernel[6, 6]) == pytest.approx(1.0)


def test_the_seed_decides():
    edge_index, weight = roll(300)
    state = torch.get_rng_state()
    first, again, other = (
        HeatCost(num_anchors=50, seed=seed)(edge_index, weight).x for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first[:, :5], other[:, :5])
    assert torch.equal(torch.get_rng_state(), state)


def test_a_spiral_is_unrolled():
    x, position = spiral(400)
    factor = HeatCost(200.0, "sqdist")(x)
    order = position.argsort()
    nearest = factor.dense()[order][:, order].fill_diagonal_(torch.inf).argmin(1)
    apart = (nearest - torch.arange(400)).abs()
    assert int(apart.max()) < 20  # no jump to the next turn


def test_refuses():
    with pytest.raises(ValueError, match="'t' to be positive"):
        HeatCost(t=0)
    with pytest.raises(ValueError, match="'rank' to be at most 'num_anchors'"):
        HeatCost(rank=300)
    with pytest.raises(ValueError, match="tol"):
        HeatCost(tol=2)
