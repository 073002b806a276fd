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
    whole = slice(0, 10)
    with closing(PanelFile(tmp_path / "a", x.shape, width, x.dtype, offset=5, writes=True)) as file:
        file.write_bytes(b"seven")
        for begin in range(0, 23, 7):
            rows = slice(begin, min(begin + 7, 23))
            file.write(rows, whole, x[rows])
        for rows in (slice(0, 23), slice(4, 5), slice(9, 23), slice(3, 3)):
            for columns in (whole, slice(2, 9), slice(9, 10), slice(3, 6)):
                np.testing.assert_array_equal(file.read(rows, columns), x[rows, columns])
        assert file.stat().st_size == file.num_bytes == 5 + 23 * 10 * 4
    assert (tmp_path / "a").read_bytes()[:5] == b"seven"
    panels = [x[:, first : first + width] for first in range(0, 10, width)]
    stored = np.fromfile(tmp_path / "a", np.float32, offset=5)
    np.testing.assert_array_equal(stored, np.concatenate([each.ravel() for each in panels]))


def test_panels_are_written_as_a_whole(tmp_path):
    with closing(PanelFile(tmp_path / "a", (4, 10), 4, np.dtype("f8"), writes=True)) as file:
        with pytest.raises(ValueError, match="not whole panels"):
            file.write(slice(0, 4), slice(0, 6), np.zeros((4, 6)))
        with pytest.raises(EOFError, match="ends before row 4"):
            file.read(slice(0, 4), slice(4, 8))
