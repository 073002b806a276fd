"""How many bytes a block works on while it goes through the terms of a series."""

# What forward and backward pass keep of every row of the block, in tiles of the columns: the last
# two terms of both recurrences, and the gradient or the result.
_TILES_OF_A_ROW = 5
# What they gather of a row outside: a term of either recurrence.
_TILES_OF_A_HALO_ROW = 2
# Of every slot: its column in 32 bits, its value and the gradient of that.
_INDEX_BYTES, _NUMBERS_OF_A_SLOT = 4, 2
_POINTER_BYTES = 8


def working_set(rows: int, halo: int, slots: int, channels: int, itemsize: int) -> int:
    """The bytes of a block: its rows, its halo, and every tile that the kernels keep.

    Args:
        rows: nodes in the block.
        halo: nodes outside that are neighbours of one inside.
        slots: directed edges that end inside.
        channels: columns of a tile.
        itemsize: bytes of a number.
    """
    tiles = (_TILES_OF_A_ROW * rows + _TILES_OF_A_HALO_ROW * halo) * channels * itemsize
    return tiles + slots * (_INDEX_BYTES + _NUMBERS_OF_A_SLOT * itemsize) + rows * _POINTER_BYTES
