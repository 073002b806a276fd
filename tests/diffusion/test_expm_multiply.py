"""exp(tA) x beside SciPy's, and its gradients beside the dense exponential's."""

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
import torch
from torch.autograd import gradcheck

from jsem_pyg.diffusion import expm_multiply


def _matrix(size: int = 40) -> scipy.sparse.csr_matrix:
    random = scipy.sparse.random(size, size, 0.1, random_state=np.random.default_rng(0))
    return (random + random.T - scipy.sparse.diags(np.linspace(-1, 3, size))).tocsr()


@pytest.mark.parametrize("t", [1.0, 0.0, -2.0, 5.0])
def test_it_is_scipys(t):
    A, x = _matrix(), np.random.default_rng(1).normal(size=(40, 3))
    exact = scipy.sparse.linalg.expm_multiply(t * A, x)
    out = expm_multiply(A, x, t, tol=1e-10)
    assert isinstance(out, np.ndarray)
    np.testing.assert_allclose(out, exact, atol=1e-7 * np.abs(exact).max())
    index = torch.from_numpy(A.toarray()).to_sparse_csr()
    one = expm_multiply(index, torch.from_numpy(x[:, 0]), t, tol=1e-10)
    np.testing.assert_allclose(one, exact[:, 0], atol=1e-7 * np.abs(exact).max())


def test_hubs_do_not_loosen_the_bound():
    """A star of 400 leaves: Gershgorin's bound is 400, the largest eigenvalue 20."""
    leaves = np.arange(1, 401)
    A = scipy.sparse.coo_array((np.ones(400), (np.zeros(400, int), leaves)), (401, 401))
    A = A + A.T
    x = np.random.default_rng(0).normal(size=(401, 2))
    exact = scipy.sparse.linalg.expm_multiply(A, x)
    np.testing.assert_allclose(expm_multiply(A, x), exact, atol=1e-5 * np.abs(exact).max())


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_entries_of_both_signs_do_not_loosen_the_bound(dtype, scale):
    """Minus a Gram matrix: no eigenvalue is positive, but that of absolute entries is."""
    if dtype == torch.float32 and scale != 1:
        pytest.skip("out of the type's range")
    factor = torch.randn(12, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    A = torch.triu(-(factor @ factor.T)).to(dtype)
    A = A + torch.triu(A, 1).T
    x = torch.randn(12, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for t in (3.0, 30.0):
        exact = torch.linalg.matrix_exp(t * A.double()) @ x
        out = expm_multiply(A * scale, x.to(dtype), t / scale)
        assert (out - exact).norm() <= 1e-5 * exact.norm()


def test_gradients_in_values_x_and_t():
    dense = torch.from_numpy(_matrix(8).toarray())
    index = dense.to_sparse().indices()
    value = dense[index[0], index[1]].requires_grad_()
    x = torch.randn(8, 2, dtype=torch.float64, requires_grad=True)
    t = torch.tensor(-0.6, dtype=torch.float64, requires_grad=True)

    def ours(value, x, t):
        full = torch.zeros(8, 8, dtype=torch.float64).index_put(tuple(index), value)
        return expm_multiply((full + full.T) / 2, x, t, tol=1e-11)

    assert gradcheck(ours, (value, x, t), atol=1e-6, fast_mode=True)

    def of_dense(full):
        return expm_multiply((full + full.T) / 2, x.detach(), tol=1e-11)

    assert gradcheck(of_dense, (dense.clone().requires_grad_(),), atol=1e-6)  # zeros as well


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("t", [1.0, 1e-10, -3.0])
def test_the_gradient_of_a_matrix_of_zeros(dtype, t):
    A = torch.zeros(2, 2, dtype=dtype, requires_grad=True)
    x = torch.tensor([1.0, 2.0], dtype=dtype)
    (grad,) = torch.autograd.grad(expm_multiply(A, x, t).sum(), A)
    expected = t * torch.tensor([[1.0, 1.5], [1.5, 2.0]], dtype=dtype)  # t x 1^T, made symmetric
    torch.testing.assert_close(grad, expected, rtol=1e-5, atol=0.0)


def test_a_time_beyond_the_range_is_refused():
    with pytest.raises(ValueError, match="'t' to be within 1e.04 of zero.*got 2e.04"):
        expm_multiply(torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.ones(2), -2e4)


def test_errors_name_the_argument():
    with pytest.raises(ValueError, match="'A'"):
        expm_multiply(torch.tensor([[1.0, 0.0]]), torch.ones(2))
    with pytest.raises(TypeError, match="'A'.*got list"):
        expm_multiply([[1.0]], torch.ones(1))
    with pytest.raises(TypeError, match="'x'.*got list"):
        expm_multiply(torch.eye(1), [1.0])


def test_a_result_out_of_range_is_refused():
    """It was infinite."""
    A = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    with pytest.raises(ValueError, match="'x' to lie within"):
        expm_multiply(A, torch.full((2,), 1e38))
    with pytest.raises(ValueError, match="stay in the range of torch.float32"):
        expm_multiply(A, torch.full((2,), 1e14), 80.0)


@pytest.mark.parametrize("bad", [[[0.0, 1.0], [0.0, 0.0]], [[0.0, 1.0], [2.0, 0.0]]])
def test_an_unsymmetric_matrix_is_advised_as_a_matrix(bad):
    with pytest.raises(
        ValueError, match=r"'A' to be .*its symmetric part, \(A \+ A\.T\) / 2"
    ) as error:
        expm_multiply(torch.tensor(bad), torch.ones(2))
    assert "to_undirected" not in str(error.value)
