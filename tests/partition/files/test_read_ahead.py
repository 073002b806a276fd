"""Reading ahead and writing behind changes the order of nothing."""

import threading

import pytest

from jsem_pyg.partition.files.steps import read_ahead


def test_pieces_come_in_order_and_threads_are_three():
    threads = {"read": set(), "work": set(), "write": set()}
    written = []

    def note(name):
        threads[name].add(threading.get_ident())

    read_ahead(
        range(20),
        lambda piece: note("read") or 2 * piece,
        lambda piece, value: note("work") or (piece, value),
        lambda piece, made: note("write") or written.append((piece, made)),
    )
    assert written == [(piece, (piece, 2 * piece)) for piece in range(20)]
    assert threads["work"] == {threading.get_ident()}
    assert len(set.union(*threads.values())) == 3


def test_the_next_is_read_and_the_last_written_meanwhile():
    read, written = [threading.Event() for _ in range(4)], [threading.Event() for _ in range(4)]

    def work(piece, _):
        if piece < 3:
            assert read[piece + 1].wait(10)
        if piece > 0:
            assert written[piece - 1].wait(10)

    read_ahead(
        range(4), lambda piece: read[piece].set(), work, lambda piece, _: written[piece].set()
    )
    assert written[3].is_set()


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
