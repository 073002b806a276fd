from types import SimpleNamespace

import torch
from transport.problems import masses, points

from jsem_pyg.kernels.sinkhorn.torch_rows import sinkhorn_pass
from jsem_pyg.transport.problem.problem import Side
from jsem_pyg.transport.sinkhorn.loop import in_turn
from jsem_pyg.transport.solver import starts


def test_rough_plans_are_entropic_plans_between_features():
    source = Side(points(12, 2, 0), masses(12, 1).log2())
    target = Side(points(9, 3, 2), masses(9, 3).log2())
    first, second, temperature = points(12, 4, 4), points(9, 4, 5), 0.3
    problem = SimpleNamespace(one_pass=in_turn(sinkhorn_pass))
    found = starts._match(problem, first, second, source, target, temperature)
    p, q = source.mass, target.mass
    spread = p @ first.square().sum(1) + q @ second.square().sum(1)
    kernel = (-torch.cdist(first, second).square() / (temperature * spread)).exp()
    right = torch.ones(9, dtype=torch.float64)
    for _ in range(2000):
        left = p / (kernel @ right)
        right = q / (kernel.T @ left)
    expected = source.z.T @ (left[:, None] * kernel * right) @ target.z
    assert float((found - expected).norm() / expected.norm()) < 0.05
