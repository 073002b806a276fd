"""Work on pieces one by one, while the next one is read and the last one written."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Piece = TypeVar("Piece")
Read = TypeVar("Read")
Made = TypeVar("Made")


def read_ahead(
    pieces: Sequence[Piece],
    read: Callable[[Piece], Read],
    work: Callable[[Piece, Read], Made],
    write: Callable[[Piece, Made], None],
) -> None:
    """Read, work on and write every piece, in order.

    There is one thread that reads and one that writes; `work` is called in this one. At any time at
    most two pieces that were read and two that were made are held. What any of the three raises is
    raised here, once what was begun is over; nothing is written of a piece after it.

    Example:
        >>> done = []
        >>> def write(piece, made):
        ...     done.append(made)
        >>> read_ahead([1, 2], str, lambda piece, read: read * piece, write)
        >>> done
        ['1', '22']
    """
    if not pieces:
        return
    with ThreadPoolExecutor(1) as reader, ThreadPoolExecutor(1) as writer:
        ahead: Future[Read] = reader.submit(read, pieces[0])
        behind: Future[None] | None = None
        for place, piece in enumerate(pieces):
            taken = ahead.result()
            if place + 1 < len(pieces):
                ahead = reader.submit(read, pieces[place + 1])
            made = work(piece, taken)
            del taken
            if behind is not None:
                behind.result()
            behind = writer.submit(write, piece, made)
            del made
        if behind is not None:
            behind.result()
