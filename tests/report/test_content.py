from dataclasses import replace

import numpy as np
import pytest
import torch
from report_cases import blobs

from jsem_pyg.report.content import read_groupings, read_images


def test_pictures_take_all_greys():
    images = np.array([[[-8.0, 0.0]], [[8.0, -4.0]]])
    assert read_images(images, 2).tolist() == [[[0, 128]], [[255, 64]]]
    assert read_images(images > 0, 2).tolist() == [[[0, 0]], [[255, 0]]]
    assert not read_images(np.full((1, 2, 2), 7), 1).any()
    assert read_images(None, 3) is None


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.ones((2, 4)), r"\[2, H, W\]"),
        (np.ones((3, 4, 4)), r"\[2, H, W\]"),
        (np.ones((2, 0, 4)), r"\[2, H, W\]"),
        (np.full((2, 1, 1), np.nan), "finite"),
    ],
)
def test_what_is_no_picture_is_refused(images, message):
    with pytest.raises(ValueError, match=message):
        read_images(images, 2)
    with pytest.raises(TypeError, match="array of numbers"):
        read_images([[["a"]]] * 2, 2)


def test_levels_are_no_groupings_of_their_own():
    data, found = blobs(each=10)
    found = replace(found, levels=[torch.zeros(30, dtype=torch.int64)])
    read = read_groupings(data, found, None, None, None)
    assert [each.is_level for each in read] == [False, False, True]
