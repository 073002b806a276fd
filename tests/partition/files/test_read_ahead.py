"""What comes next is read in a thread, and changes the order of nothing."""

import threading
from importlib import import_module

import pytest

read_ahead = import_module("jsem_pyg.partition.files.diffuse_file").read_ahead


def test_the_next_piece_is_read_while_one_is_worked_on():
    is_read = [threading.Event() for _ in range(6)]

    def read(piece):
        is_read[piece].set()
        return 2 * piece

    found = []
    for piece, value in read_ahead(range(6), read):
        assert piece == 5 or is_read[piece + 1].wait(10)
        assert piece > 3 or not is_read[piece + 2].is_set()  # no more than one
        found.append((piece, value))
    assert found == [(piece, 2 * piece) for piece in range(6)]
    assert list(read_ahead([], read)) == []


def test_an_error_comes_in_its_turn():
    pieces = read_ahead([2, 1, 0, 3], lambda piece: 1 / piece)
    assert [next(pieces), next(pieces)] == [(2, 0.5), (1, 1.0)]
    with pytest.raises(ZeroDivisionError):
        next(pieces)
