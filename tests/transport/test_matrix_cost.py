import logging

import pytest
import torch
from transport.problems import align, permutation, points, relative

from jsem_pyg.transport import ColumnCost, MatrixCost


def distances(num_points, dim=2, dtype=torch.float64):
    x = points(num_points, dim, dtype=dtype)
    return torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")


@pytest.mark.parametrize("num_points", [1, 2, 600])
def test_squared_distances_have_few_eigenvalues(num_points):
    matrix = distances(num_points).square()
    factor = MatrixCost(rank=20, tol=1e-9)(matrix)
    assert factor.rank <= 4
    assert factor.error < 1e-7
    torch.testing.assert_close(factor.dense(), matrix, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("num_points", [200, 700])
def test_the_error_is_that_of_the_matrix(dtype, num_points):
    matrix = distances(num_points, dtype=dtype)
    factor = MatrixCost(rank=30)(matrix)
    assert factor.x.dtype == dtype
    assert factor.error == pytest.approx(relative(factor.dense(), matrix), rel=1e-3)
    value = torch.linalg.eigvalsh(matrix.double())
    order = value.abs().argsort(descending=True)
    best = float(value[order[30:]].norm() / value.norm())
    assert factor.error < 1.1 * max(best, 1e-3)
    assert set(factor.signs.tolist()) == {1.0, -1.0}


def symmetric(*values):
    """A matrix of these eigenvalues."""
    vector = torch.linalg.qr(points(len(values), len(values)))[0]
    return (vector * torch.tensor(values, dtype=torch.float64)) @ vector.T


@pytest.mark.parametrize("rank", [2, 4])
@pytest.mark.parametrize(
    "matrix", [distances(8), symmetric(3, -2, 1, -0.5, 0.1), symmetric(3, 3, -2, -2, 0)]
)
def test_gradients(matrix, rank):
    """Also where eigenvalues are equal, and those of single eigenvectors are infinite."""

    def dense(matrix):
        return MatrixCost(rank=rank, tol=0)((matrix + matrix.T) / 2).dense()

    value = torch.linalg.eigvalsh(matrix)
    rest = value[value.abs().argsort(descending=True)][rank:].norm()
    torch.testing.assert_close((dense(matrix) - matrix).norm(), rest, atol=1e-10, rtol=1e-7)
    assert torch.autograd.gradcheck(dense, matrix.clone().requires_grad_())


def test_a_gradient_at_the_matrix_of_zeros_is_finite():
    matrix = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
    MatrixCost(rank=2, tol=0)(matrix).x.sum().backward()
    assert matrix.grad.isfinite().all()


def test_refuses_a_gradient_of_a_large_matrix():
    with pytest.raises(ValueError, match="'matrix' without a gradient"):
        MatrixCost()(distances(520).requires_grad_())


@pytest.mark.parametrize("num_points", [30, 700])
def test_a_matrix_of_full_rank_is_said_to_fit_badly(num_points, caplog):
    matrix = points(num_points, num_points)
    with caplog.at_level(logging.WARNING):
        factor = MatrixCost(rank=5)(matrix + matrix.T)
    assert factor.error > 0.5
    assert "take a larger 'rank'" in caplog.text


def test_the_seed_decides():
    matrix, state = distances(600), torch.get_rng_state()
    first, again, other = (MatrixCost(rank=10, seed=seed)(matrix).x for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), state)


def test_refuses():
    with pytest.raises(ValueError, match="symmetric"):
        MatrixCost()(torch.tensor([[0.0, 1.0], [2.0, 0.0]]))
    with pytest.raises(ValueError, match=r"\[N, N\]"):
        MatrixCost()(torch.zeros(2, 3))
    with pytest.raises(ValueError, match="finite"):
        MatrixCost()(torch.full((2, 2), float("nan")))
    with pytest.raises(ValueError, match="dense"):
        MatrixCost()(torch.eye(3).to_sparse())


def ask(matrix):
    return lambda nodes: matrix[:, nodes]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("num_points", [1, 2, 300])
def test_columns_of_low_rank_make_an_exact_factor(num_points, dtype):
    matrix = distances(num_points, dtype=dtype).square()
    factor = ColumnCost(ask(matrix), num_points).factor(20, num_columns=40)
    tol = 1e-5 if dtype == torch.float32 else 1e-10
    assert factor.x.dtype == dtype
    assert factor.error < tol
    torch.testing.assert_close(factor.dense(), matrix, rtol=100 * tol, atol=100 * tol)


@pytest.mark.parametrize("rank", [5, 60])
def test_the_error_of_columns_within_a_factor_of_two(rank):
    matrix = distances(800)
    factor = ColumnCost(ask(matrix), 800).factor(rank, num_columns=120, tol=0)
    error = relative(factor.dense(), matrix)
    assert factor.error / 2 < error < 2 * factor.error
    best = torch.linalg.eigvalsh(matrix).abs().sort().values[:-rank].norm() / matrix.norm()
    assert error < 3 * float(best)


def test_refuses_bad_columns():
    def factor(function, num_points):
        return ColumnCost(function, num_points).factor()

    with pytest.raises(TypeError, match="'function' to be a function"):
        factor(torch.eye(3), 3)
    with pytest.raises(ValueError, match=r"to have shape \[4, 4\]"):
        factor(lambda nodes: torch.eye(3)[:, nodes % 3], 4)
    with pytest.raises(ValueError, match="to be symmetric"):
        factor(lambda nodes: torch.arange(9.0).view(3, 3)[:, nodes], 3)
    with pytest.raises(ValueError, match="'rank' to be at most 'num_columns'"):
        ColumnCost(lambda nodes: torch.eye(3)[:, nodes], 3).factor(300)


def test_one_cost_in_three_views():
    matrix = distances(30).square()
    columns = ColumnCost(ask(matrix), 30)
    factor, nodes = columns.factor(), torch.tensor([4, 7])
    torch.testing.assert_close(factor.columns(nodes), columns.columns(nodes), rtol=0, atol=1e-9)
    other = matrix[permutation(30, 1)][:, permutation(30, 1)]
    plans = [
        align(first, MatrixCost()(other), epsilon=0.1, starts=["axes"])
        for first in (columns, MatrixCost()(matrix))
    ]
    torch.testing.assert_close(plans[0].dense(), plans[1].dense(), rtol=0, atol=1e-6)


def test_a_second_derivative_is_refused():
    """It was zero."""
    generator = torch.Generator().manual_seed(0)
    matrix = torch.randn(4, 4, dtype=torch.float64, generator=generator)

    def loss(matrix):
        factor = MatrixCost()(matrix + matrix.T)
        return ((factor.x * factor.signs) @ factor.x.T).pow(3).sum()

    with pytest.raises(NotImplementedError, match="eigenvectors of a cost to be differentiated"):
        torch.autograd.functional.hessian(loss, matrix)
