"""The curve passes from neighbour to neighbour, through every cell once."""

import numpy as np
import pytest

from jsem_pyg.partition.split.hilbert import along_curve


@pytest.mark.parametrize(("axes", "side"), [(1, 8), (2, 16), (3, 8), (4, 4)])
def test_the_curve_steps_from_cell_to_cell(axes, side):
    cells = np.stack(np.meshgrid(*[np.arange(side)] * axes, indexing="ij"), -1).reshape(-1, axes)
    shuffled = np.random.default_rng(0).permutation(cells).astype(float)
    key = along_curve(shuffled)
    assert np.unique(key).size == side**axes
    steps = np.diff(shuffled[np.argsort(key)], axis=0)
    assert (np.abs(steps).sum(1) == 1).all()


def test_points_that_are_near_for_their_extent_are_told_apart():
    key = along_curve(np.array([[0.0, 0.0], [0.0, 2.0**-29], [2.0**-29, 0.0], [1.0, 1.0]]))
    assert np.unique(key).size == 4


def test_more_axes_than_four_are_turned_into_the_principal_ones():
    generator = np.random.default_rng(0)
    plane = generator.normal(size=(500, 2)) * [10, 5]
    points = np.concatenate([0.01 * generator.normal(size=(500, 5)), plane], axis=1)
    order = np.argsort(along_curve(points))
    steps = np.linalg.norm(np.diff(plane[order], axis=0), axis=1)
    assert np.median(steps) < 0.15 * np.median(np.linalg.norm(np.diff(plane, axis=0), axis=1))


@pytest.mark.parametrize("points", [np.zeros((0, 2)), np.zeros((5, 3)), np.ones((3, 0))])
def test_points_without_extent(points):
    assert along_curve(points).tolist() == [0] * len(points)
