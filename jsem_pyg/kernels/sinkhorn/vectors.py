"""Vector code for a tile of a plan, as LLVM instructions that numba inlines.

numba does not vectorise these loops well, least of all the exponential, so they are written here
with vectors; see :mod:`..chebyshev.simd` for the conventions: arrays are flat, the number type is
that of the first array, the number of lanes is the length of the last argument. A tile has
:data:`ROWS` rows; columns come `STEP` vectors at a time, widths are whole numbers of these.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numpy.polynomial import Chebyshev, Polynomial

from ..chebyshev.simd import Emitter, row_function

ROWS = 8  # of a tile: with two vectors of columns, sums in 16 of 32 registers
STEP = 2  # vectors of columns at a time
CHANNELS = 3  # channels at a time: with the rows, sums in 24 registers

# Bits. Powers of two below this are as good as zero, and not below: their products stay normal.
_LOWEST = {32: -100.0, 64: -1000.0}
_DEGREE = {32: 6, 64: 11}  # of a polynomial for 2^x within +-1/2: relative errors of 5e-9, 1e-15
_MANTISSA = {32: 23, 64: 52}
_INDEX = ir.IntType(64)


class _TileEmitter(Emitter):
    """Emits loops over the columns of a tile."""

    @property
    def bits(self) -> int:
        return self.number.bitwidth

    def constant(self, value: float) -> Any:
        """Put a number into all lanes."""
        return ir.Constant(self.vector, [value] * self.num_lanes)

    def offset(self, base: Any, *terms: Any) -> Any:
        """Compute an address: base + the sum of products of pairs."""
        for count, stride in terms:
            base = self.builder.add(base, self.builder.mul(_index(count), _index(stride)))
        return base

    def vector_at(self, data: Any, offset: Any, vector: Any = None) -> Any:
        return self.at(data, offset, vector or self.vector)

    def spread(self, data: Any, offset: Any) -> Any:
        """Load one number of memory into all lanes."""
        return self.broadcast(self.builder.load(self.builder.gep(data, [offset])), self.num_lanes)

    def largest(self, a: Any, b: Any) -> Any:
        return self.builder.select(self.builder.fcmp_ordered(">", a, b), a, b)

    def columns(self, width: Any, step: int, body: Callable[[Any], None]) -> None:
        """Call `body` with the first of every `step` vectors of columns."""
        stride = ir.Constant(_INDEX, step * self.num_lanes)
        with cgutils.for_range(self.builder, self.builder.udiv(width, stride)) as loop:
            body(self.builder.mul(loop.index, stride))

    def add_to(self, variable: Any, value: Any) -> None:
        self.builder.store(self.builder.fadd(self.builder.load(variable), value), variable)

    def exp2(self, x: Any) -> Any:
        """Compute 2^x for x below 100: a polynomial for the fraction, exponent bits for the whole.

        Adding 1.5 * 2^(mantissa bits) rounds to a whole number and leaves it in the lowest bits.
        """
        bits, mantissa = self.bits, _MANTISSA[self.bits]
        x = self.largest(x, self.constant(_LOWEST[bits]))
        magic = self.constant(1.5 * 2.0**mantissa)
        shifted = self.builder.fadd(x, magic)
        rest = self.builder.fsub(x, self.builder.fsub(shifted, magic))
        *low, value = _exp2_polynomial(_DEGREE[bits])
        power = self.constant(value)
        for each in reversed(low):
            power = self.fma(power, rest, self.constant(each))
        whole = ir.VectorType(ir.IntType(bits), self.num_lanes)
        places = ir.Constant(whole, [mantissa] * self.num_lanes)
        exponent = self.builder.shl(self.builder.bitcast(shifted, whole), places)
        raised = self.builder.add(self.builder.bitcast(power, whole), exponent)
        return self.builder.bitcast(raised, self.vector)


def _index(value: Any) -> Any:
    return ir.Constant(_INDEX, value) if isinstance(value, int) else value


def _exp2_polynomial(degree: int) -> list[float]:
    """Fit 1 + x r(x), lowest first: it is 2^x at 0 and at Chebyshev points of +-1/2."""

    def slope(x: Any) -> Any:
        return np.expm1(x * np.log(2)) / np.where(x == 0, 1, x) + (x == 0) * np.log(2)

    series = Chebyshev.interpolate(slope, degree - 1, domain=[-0.5, 0.5])
    return [1.0, *(float(each) for each in series.convert(kind=Polynomial).coef)]


@row_function
def score_rows(
    emit: _TileEmitter, scores: Any, top: Any, u: Any, v: Any, g: Any, u_at: Any, v_at: Any,
    g_at: Any, rank: Any, width: Any, stride: Any, lanes: Any,
) -> None:  # fmt: skip
    """Set scores[row, column] = u_row . v_column + g_column, and top[row] to the largest.

    From `u_at`, u is [rank, ROWS]; from `v_at`, v is [width / strip, rank, strip] for strips of
    STEP vectors; from `g_at`, g is [width]; and scores is [ROWS, stride].
    """
    builder = emit.builder
    scores, top, u, v, g = (emit.data(position) for position in range(5))
    tops = emit.variables(ROWS)
    for each in tops:
        builder.store(emit.constant(float("-inf")), each)

    def block(first: Any) -> None:
        starts = [emit.offset(first, (i, emit.num_lanes)) for i in range(STEP)]
        sums = [emit.variables(STEP) for _ in range(ROWS)]
        for i, start in enumerate(starts):
            value = emit.load(emit.vector_at(g, builder.add(g_at, start)))
            for row in sums:
                builder.store(value, row[i])
        with cgutils.for_range(builder, rank) as loop:
            line = emit.offset(v_at, (first, rank), (loop.index, STEP * emit.num_lanes))
            columns = [
                emit.load(emit.vector_at(v, emit.offset(line, (i, emit.num_lanes))))
                for i in range(STEP)
            ]
            place = emit.offset(u_at, (loop.index, ROWS))
            for r, row in enumerate(sums):
                factor = emit.spread(u, emit.offset(place, (r, 1)))
                for variable, column in zip(row, columns, strict=True):
                    emit.add_product(variable, factor, column)
        for r, row in enumerate(sums):
            for variable, start in zip(row, starts, strict=True):
                value = builder.load(variable)
                emit.store(value, emit.vector_at(scores, emit.offset(start, (r, stride))))
                builder.store(emit.largest(value, builder.load(tops[r])), tops[r])

    emit.columns(width, STEP, block)
    best = emit.sums([builder.load(each) for each in tops], emit.largest)
    emit.store(best, emit.vector_at(top, _index(0), best.type))


@row_function
def exp_row(
    emit: _TileEmitter, shares: Any, scores: Any, to: Any, at: Any, reference: Any, width: Any,
    lanes: Any,
) -> Any:  # fmt: skip
    """Set shares[to:] = 2^(scores[at:] - reference), and return their sum."""
    builder = emit.builder
    shares, scores = emit.data(0), emit.data(1)
    reference, sums = emit.splat(4), emit.variables(STEP)

    def block(first: Any) -> None:
        for i, variable in enumerate(sums):
            start = emit.offset(first, (i, emit.num_lanes))
            score = emit.load(emit.vector_at(scores, builder.add(at, start)))
            share = emit.exp2(builder.fsub(score, reference))
            emit.store(share, emit.vector_at(shares, builder.add(to, start)))
            emit.add_to(variable, share)

    emit.columns(width, STEP, block)
    return builder.extract_element(emit.sums([emit.total(sums)]), ir.Constant(_INDEX, 0))


@row_function
def average_rows(
    emit: _TileEmitter, shares: Any, y: Any, average: Any, at: Any, y_at: Any, average_at: Any,
    width: Any, stride: Any, lanes: Any,
) -> None:  # fmt: skip
    """Add to average[channel, row] the sum over columns of shares[row] * y[channel], float64.

    shares is [ROWS, stride] from `at`, y [CHANNELS, stride] from `y_at`, average [CHANNELS, ROWS]
    from `average_at`.
    """
    builder = emit.builder
    shares, y, average = (emit.data(position) for position in range(3))
    sums = [emit.variables(ROWS) for _ in range(CHANNELS)]

    def block(first: Any) -> None:
        signals = [
            emit.load(emit.vector_at(y, emit.offset(y_at, (first, 1), (c, stride))))
            for c in range(CHANNELS)
        ]
        for r in range(ROWS):
            place = emit.offset(at, (first, 1), (r, stride))
            share = emit.load(emit.vector_at(shares, place))
            for channel, signal in zip(sums, signals, strict=True):
                emit.add_product(channel[r], share, signal)

    emit.columns(width, 1, block)
    wide = ir.VectorType(ir.DoubleType(), ROWS)
    for c, channel in enumerate(sums):
        total = emit.sums([builder.load(each) for each in channel])
        total = total if total.type == wide else builder.fpext(total, wide)
        address = emit.vector_at(average, emit.offset(average_at, (c, ROWS)), wide)
        emit.store(builder.fadd(emit.load(address), total), address)


@row_function
def add_columns(
    emit: _TileEmitter, shares: Any, weight: Any, column: Any, at: Any, column_at: Any, width: Any,
    stride: Any, lanes: Any,
) -> None:  # fmt: skip
    """Add to each column the sum over ROWS rows of weight[row] * shares[row], in float64."""
    builder = emit.builder
    shares, weight, column = (emit.data(position) for position in range(3))
    weights = [emit.spread(weight, _index(r)) for r in range(ROWS)]
    wide = ir.VectorType(ir.DoubleType(), emit.num_lanes)

    def block(first: Any) -> None:
        total = emit.constant(0.0)
        for r, factor in enumerate(weights):
            place = emit.offset(at, (first, 1), (r, stride))
            total = emit.fma(factor, emit.load(emit.vector_at(shares, place)), total)
        total = total if total.type == wide else builder.fpext(total, wide)
        address = emit.vector_at(column, builder.add(column_at, first), wide)
        emit.store(builder.fadd(emit.load(address), total), address)

    emit.columns(width, 1, block)
