from dataclasses import replace

import numpy as np
import torch
from report_cases import blobs

from jsem_pyg.report.content import read_groupings, read_images


def test_pictures_take_all_greys():
    images = np.array([[[-8.0, 0.0]], [[8.0, -4.0]]])
    assert read_images(images, 2).tolist() == [[[0, 128]], [[255, 64]]]
    assert read_images(images > 0, 2).tolist() == [[[0, 0]], [[255, 0]]]
    assert not read_images(np.full((1, 2, 2), 7), 1).any()
    assert read_images(None, 3) is None


def test_levels_are_no_groupings_of_their_own():
    data, found = blobs(each=10)
    found = replace(found, levels=[torch.zeros(30, dtype=torch.int64)])
    read = read_groupings(data, found, None, None, None)
    assert [each.is_level for each in read] == [False, False, True]
