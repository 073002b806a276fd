import pytest
import torch

from jsem_pyg.transport.costs.roots import inverse_root, leading_basis, signed_root


def symmetric(*values, seed=0):
    """A matrix of these eigenvalues."""
    size = len(values)
    generator = torch.Generator().manual_seed(seed)
    normal = torch.randn(size, size, dtype=torch.float64, generator=generator)
    vector = torch.linalg.qr(normal)[0]
    return (vector * torch.tensor(values, dtype=torch.float64)) @ vector.T


def spread(matrix, seed=1):
    """A number that depends on every entry, and no symmetry of it."""
    generator = torch.Generator().manual_seed(seed)
    return (matrix * torch.randn(matrix.shape, dtype=matrix.dtype, generator=generator)).sum()


def gram(x):
    return x @ x.T


def test_roots_are_roots():
    matrix = symmetric(4.0, 1.0, 0.25, 1e-6)
    inverse = inverse_root(matrix, 0.5)
    whole = gram(inverse) @ (matrix + 0.5 * torch.eye(4))
    torch.testing.assert_close(whole, torch.eye(4, dtype=torch.float64))


# Eigenvalues that are equal, where the derivative of eigenvectors themselves is infinite.
@pytest.mark.parametrize(
    "values", [(3.0, 2.0, 1.0, 0.5), (3.0, 3.0, 1.0, 1.0), (1.0, 1.0, 1.0, 1.0)]
)
def test_derivatives_of_roots(values):
    matrix = symmetric(*values).requires_grad_()
    assert torch.autograd.gradcheck(lambda m: inverse_root((m + m.T) / 2, 0.1), matrix)


@pytest.mark.parametrize("values", [(3.0, 2.0, 1.0, 0.5), (3.0, 3.0, 1.0, 1.0)])
def test_the_derivative_of_the_space_of_the_leading_eigenvectors(values):
    matrix = symmetric(*values).requires_grad_()
    assert torch.autograd.gradcheck(lambda m: gram(leading_basis((m + m.T) / 2, 2)), matrix)


def test_leading_are_the_largest_first():
    basis = leading_basis(symmetric(3.0, 2.0, 1.0), 2)
    expected = torch.tensor([3.0, 2.0], dtype=torch.float64).diag()
    torch.testing.assert_close(basis.T @ symmetric(3.0, 2.0, 1.0) @ basis, expected)


@pytest.mark.parametrize("rank", [2, 4, 5])
@pytest.mark.parametrize("values", [(3.0, -2.0, 1.0, -0.5, 0.1), (3.0, 3.0, -2.0, -2.0, 0.0)])
def test_signed_roots(values, rank):
    matrix = symmetric(*values)

    def product(matrix):
        x, sign = signed_root((matrix + matrix.T) / 2, rank, 1e-14)
        return (x * sign) @ x.T

    by_size = torch.tensor(sorted(values, key=abs, reverse=True), dtype=torch.float64)
    rest = by_size[rank:].norm()
    torch.testing.assert_close((product(matrix) - matrix).norm(), rest, atol=1e-12, rtol=1e-9)
    is_smooth = 0.0 not in values or rank < 5  # a root has no derivative at zero
    if is_smooth:
        assert torch.autograd.gradcheck(product, matrix.requires_grad_())


def test_a_gradient_at_the_zero_matrix_is_finite():
    matrix = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
    for function in (lambda m: signed_root(m, 3, 0.0)[0], lambda m: leading_basis(m, 1)):
        (grad,) = torch.autograd.grad(spread(function(matrix)), matrix)
        assert bool(grad.isfinite().all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_types_are_kept(dtype):
    matrix = symmetric(2.0, 1.0).to(dtype)
    assert inverse_root(matrix, 0.0).dtype == dtype
    x, sign = signed_root(matrix, 2, 0.0)
    assert leading_basis(matrix, 1).dtype == x.dtype == sign.dtype == dtype
