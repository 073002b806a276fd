import pytest
import torch
from transport.problems import masses, points

from jsem_pyg.transport.problem.problem import Side
from jsem_pyg.transport.solver.coarsening import coarsen, label_points, merge

EMPTY = [3, 40, 41]


def side(dtype=torch.float64):
    mass = masses(120, 1)
    mass[EMPTY] = 0
    mass /= mass.sum()
    return Side(points(120, 4, 0).to(dtype), mass.log2().to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_cells_have_the_mass_and_the_mean_of_their_points(dtype):
    points_ = side(dtype)
    cells, label = coarsen(points_, 3, 15, seed=0), label_points(points_, 3, 15, seed=0)
    assert 8 <= cells.num_points <= 15
    for cell, each in enumerate(label.unique().tolist()):
        own = label == each
        mass = points_.mass[own].double()
        torch.testing.assert_close(cells.mass[cell].double(), mass.sum(), rtol=1e-5, atol=0)
        mean = (mass @ points_.z[own].double()) / mass.sum()
        torch.testing.assert_close(cells.z[cell].double(), mean, rtol=1e-4, atol=1e-5)
    assert cells.z.dtype == cells.log2_mass.dtype == dtype


def test_moments_of_plans_between_cells_are_those_between_points():
    """A plan between cells, spread over their points by mass."""
    sides = side(), Side(points(90, 3, 5), masses(90, 6).log2())
    labels = [label_points(each, 3, 10, 0).unique(return_inverse=True)[1] for each in sides]
    cells = [merge(*each) for each in zip(sides, labels, strict=True)]
    plan = cells[0].mass[:, None] * cells[1].mass
    plan = plan * points(*plan.shape, 7).exp()
    shares = [
        each.mass / cell.mass[label] for each, cell, label in zip(sides, cells, labels, strict=True)
    ]
    whole = shares[0][:, None] * plan[labels[0]][:, labels[1]] * shares[1]
    expected = sides[0].z.T @ whole @ sides[1].z
    torch.testing.assert_close(cells[0].z.T @ plan @ cells[1].z, expected)
