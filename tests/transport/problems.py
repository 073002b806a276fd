"""Small transport problems, and what a plan costs by the definition."""

import torch

from jsem_pyg.transport import gromov_wasserstein


def random_graph(num_nodes, mean_degree=8, seed=0):
    """Edges [2, E], both directions."""
    generator = torch.Generator().manual_seed(seed)
    draws = torch.rand(num_nodes, num_nodes, generator=generator)
    upper = (draws < mean_degree / num_nodes).triu(1)
    return (upper | upper.T).nonzero().T


def points(num_points, dim, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(num_points, dim, generator=generator, dtype=torch.float64).to(dtype)


def relative(actual, expected):
    """The norm of the difference, as a share of what is expected."""
    return float((actual.double() - expected).norm() / expected.norm())


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
    c, d, plan = (
        (each if torch.is_tensor(each) else each.dense()).double()
        for each in (source, target, plan)
    )
    apart = (c[:, None, :, None] - d[None, :, None, :]).square()
    return float(torch.einsum("ijkl,ij,kl->", apart, plan, plan))
