"""Reading ahead and writing behind changes the order of nothing."""

import threading
from importlib import import_module

import pytest

read_ahead = import_module("jsem_pyg.partition.files.diffuse_file").read_ahead


def test_pieces_come_in_order_from_three_threads():
    """While a piece is worked on, the next one is read and the last one written."""
    threads, written = {"read": set(), "work": set(), "write": set()}, []
    is_read, is_written = ([threading.Event() for _ in range(20)] for _ in range(2))

    def read(piece):
        threads["read"].add(threading.get_ident())
        is_read[piece].set()
        return 2 * piece

    def work(piece, value):
        threads["work"].add(threading.get_ident())
        assert piece == 19 or is_read[piece + 1].wait(10)
        assert piece == 0 or is_written[piece - 1].wait(10)
        return piece, value

    def write(piece, made):
        threads["write"].add(threading.get_ident())
        written.append((piece, made))
        is_written[piece].set()

    read_ahead(range(20), read, work, write)
    assert written == [(piece, (piece, 2 * piece)) for piece in range(20)]
    assert threads["work"] == {threading.get_ident()}


@pytest.mark.parametrize("failing", ["read", "work", "write"])
def test_nothing_is_written_after_an_error(failing):
    written = []

    def step(name, result):
        def run(piece, *_):
            if name == failing and piece == 3:
                raise OSError(f"{name} of {piece}")
            return result(piece)

        return run

    with pytest.raises(OSError, match=f"{failing} of 3"):
        read_ahead(range(9), step("read", str), step("work", str), step("write", written.append))
    assert written == [0, 1, 2][: len(written)]
    assert len(written) >= 2


def test_no_pieces():
    read_ahead([], None, None, None)
