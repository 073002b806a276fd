from types import SimpleNamespace

import torch
from transport.problems import masses, points

from jsem_pyg.kernels.table import SINKHORN
from jsem_pyg.transport import Factor
from jsem_pyg.transport.problem.prepare import _skew_signs
from jsem_pyg.transport.problem.problem import Side
from jsem_pyg.transport.sinkhorn.loop import in_turn
from jsem_pyg.transport.solver import starts
from jsem_pyg.transport.solver.task import _points


def test_rough_plans_are_entropic_plans_between_features():
    source = Side(points(12, 2, 0), masses(12, 1).log2())
    target = Side(points(9, 3, 2), masses(9, 3).log2())
    first, second, temperature = points(12, 4, 4), points(9, 4, 5), 0.3
    reference = SINKHORN.find("reference", torch.device("cpu")).sinkhorn_pass
    problem = SimpleNamespace(one_pass=in_turn(reference))
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


def test_kernels_have_neighbours_by_direction_if_all_points_have_one():
    x = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    at_origin = torch.cat([x, torch.zeros(1, 2)])
    assert _points(Factor(x, "kernel")).metric == "cosine"
    assert _points(Factor(at_origin, "kernel")).metric == "l2"
    assert _points(Factor(x, "sqdist")).metric == "l2"


def test_an_axis_points_where_its_tail_is():
    x = torch.tensor([[-1.0, 1.0], [-1.0, 1.0], [2.0, -2.0]])
    assert _skew_signs(x, torch.ones(3)).tolist() == [1.0, -1.0]
