import pytest
import torch
from transport.problems import masses, points

from jsem_pyg.transport.factored.coarsening import coarsen, merge
from jsem_pyg.transport.problem.problem import Side

EMPTY = [3, 40, 41]


def side(dtype=torch.float64):
    mass = masses(120, 1)
    mass[EMPTY] = 0
    mass /= mass.sum()
    return Side(points(120, 4, 0).to(dtype), mass.log2().to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_cells_have_the_mass_and_the_mean_of_their_points(dtype):
    points_ = side(dtype)
    cells = coarsen(points_, 3, 15, seed=0)
    assert cells.label.shape == (120,)
    assert 8 <= cells.side.num_points <= 15
    for cell in range(cells.side.num_points):
        own = cells.label == cell
        mass = points_.mass[own].double()
        torch.testing.assert_close(cells.side.mass[cell].double(), mass.sum(), rtol=1e-5, atol=0)
        mean = (mass @ points_.z[own].double()) / mass.sum()
        torch.testing.assert_close(cells.side.z[cell].double(), mean, rtol=1e-4, atol=1e-5)
    assert cells.side.z.dtype == cells.side.log2_mass.dtype == dtype


def test_moments_of_plans_between_cells_are_those_between_points():
    """A plan between cells, spread over their points by mass."""
    first, second = side(), Side(points(90, 3, 5), masses(90, 6).log2())
    one, other = coarsen(first, 4, 10, 0), coarsen(second, 3, 12, 1)
    plan = one.side.mass[:, None] * other.side.mass
    plan = plan * points(*plan.shape, 7).exp()
    shares = [
        each.mass / cells.side.mass[cells.label] for each, cells in ((first, one), (second, other))
    ]
    whole = shares[0][:, None] * plan[one.label][:, other.label] * shares[1]
    expected = first.z.T @ whole @ second.z
    torch.testing.assert_close(one.side.z.T @ plan @ other.side.z, expected)


def test_few_points_are_their_own_cells():
    points_ = side()
    cells = coarsen(points_, 4, 80, seed=0)  # 1.5 times as many are few
    assert cells.side is points_
    assert torch.equal(cells.label, torch.arange(120))


def test_points_without_mass_make_no_cell_but_have_one():
    points_ = side()
    far = points_.z.clone()
    far[EMPTY] = 1e3
    cells = coarsen(points_._replace(z=far), 4, 15, seed=0)
    assert float(cells.side.z.abs().max()) < 10
    assert bool((cells.side.log2_mass > -torch.inf).all())
    assert int(cells.label.max()) < cells.side.num_points


def test_labels_without_mass_are_left_out():
    mass = torch.tensor([0.5, 0.0, 0.5])
    cells = merge(Side(torch.eye(3), mass.log2()), torch.tensor([4, 7, 2]))
    assert torch.equal(cells.side.z, torch.eye(3)[[2, 0]])
    assert cells.label[[0, 2]].tolist() == [1, 0]


def test_only_leading_coordinates_tell_points_apart():
    z = torch.cat([torch.arange(40.0).remainder(4)[:, None], 1e3 * points(40, 2).float()], 1)
    cells = coarsen(Side(z, torch.full((40,), 1 / 40).log2()), 1, 4, seed=0)
    assert all(len(set(cells.label[each::4].tolist())) == 1 for each in range(4))


def test_the_seed_decides():
    first, second = coarsen(side(), 4, 15, seed=3), coarsen(side(), 4, 15, seed=3)
    assert torch.equal(first.label, second.label)
