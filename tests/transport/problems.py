"""Small transport problems, and what a plan costs by the definition."""

import torch

from jsem_pyg.transport import Factor, gromov_wasserstein


def points(num_points, dim, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(num_points, dim, generator=generator, dtype=torch.float64).to(dtype)


def masses(num_points, seed=0, dtype=torch.float64):
    """None is near zero, no two are the same."""
    generator = torch.Generator().manual_seed(seed)
    mass = torch.rand(num_points, generator=generator, dtype=torch.float64) + 0.2
    return (mass / mass.sum()).to(dtype)


def permutation(num_points, seed=0):
    return torch.randperm(num_points, generator=torch.Generator().manual_seed(seed))


def rotation(dim, seed=0, dtype=torch.float64):
    return torch.linalg.qr(points(dim, dim, seed))[0].to(dtype)


def align(source, target, **options):
    return gromov_wasserstein(source, target, **{"progress": False, **options})


def gw_cost(source, target, plan):
    """sum |C_ik - D_jl|^2 T_ij T_kl, term by term."""
    c, d = (
        each.dense().double() if isinstance(each, Factor) else each for each in (source, target)
    )
    plan = plan.double()
    apart = (c[:, None, :, None] - d[None, :, None, :]).square()
    return float(torch.einsum("ijkl,ij,kl->", apart, plan, plan))


def linear_program(cost, p, q):
    """The least <cost, T> of plans T with marginals p and q: SciPy's."""
    from scipy.optimize import linprog

    n, m = cost.shape
    rows = torch.eye(n).repeat_interleave(m, 1)
    columns = torch.eye(m).repeat(1, n)
    constraints = torch.cat([rows, columns]).numpy()
    result = linprog(cost.flatten().numpy(), A_eq=constraints, b_eq=torch.cat([p, q]).numpy())
    assert result.success
    return result.fun
