"""A matrix in panels is the same matrix."""

from contextlib import closing

import numpy as np
import pytest

from jsem_pyg.partition.files import panel_file
from jsem_pyg.partition.files.panel_file import PanelFile


@pytest.mark.parametrize("width", [1, 3, 4, 10, 11])
@pytest.mark.parametrize("block", [1, 100, 10**6])
def test_rows_and_columns(tmp_path, monkeypatch, width, block):
    monkeypatch.setattr(panel_file, "BLOCK", block)
    x = np.random.default_rng(0).normal(size=(23, 10)).astype(np.float32)
    panels = [slice(first, min(first + width, 10)) for first in range(0, 10, width)]
    with closing(PanelFile(tmp_path / "a", x.shape, width, x.dtype)) as file:
        for begin in range(0, 23, 7):
            rows = slice(begin, min(begin + 7, 23))
            file.write(rows, slice(0, 10), x[rows])
        for rows in (slice(0, 23), slice(4, 5), slice(9, 23), slice(3, 3)):
            for columns in (slice(0, 10), *panels, slice(panels[-1].start, 10)):
                np.testing.assert_array_equal(file.read(rows, columns), x[rows, columns])
    stored = np.fromfile(tmp_path / "a", np.float32)
    np.testing.assert_array_equal(stored, np.concatenate([x[:, each].ravel() for each in panels]))


def test_a_file_that_ends_too_early(tmp_path):
    with (
        closing(PanelFile(tmp_path / "a", (4, 10), 4, np.dtype("f8"))) as file,
        pytest.raises(EOFError, match="ends before row 4"),
    ):
        file.read(slice(0, 4), slice(4, 8))


def test_what_is_written_is_in_the_file_at_once(tmp_path):
    x = np.arange(12.0).reshape(3, 4)
    with closing(PanelFile(tmp_path / "a", x.shape, 4, x.dtype)) as file:
        file.write(slice(0, 3), slice(0, 4), x)
        np.testing.assert_array_equal(np.fromfile(tmp_path / "a"), x.ravel())
