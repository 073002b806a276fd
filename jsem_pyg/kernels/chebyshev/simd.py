"""Vector code for one row of a column tile, as LLVM instructions that numba inlines.

A tile holds a few columns of all nodes: row i is `lanes` numbers side by side, a whole number of
cache lines (64 bytes: 16 float32 or 8 float64). numba does not vectorise a loop that gathers such
rows, so the loops over a row's edges are written here, with vectors; LLVM fits them to the machine
(one AVX-512 register, two AVX2, four SSE or NEON). Arrays are flat, rows are counted from their
start. The number type is that of the first array; the number of lanes is the length of the last
argument, a tuple of integers, so that it is a constant of the compiled code.
"""

from collections.abc import Callable, Sequence
from functools import update_wrapper
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from ..compiled import emit_prefetch

CACHE_LINE = 64  # bytes

_UNROLL = 4  # edges in flight: their loads and multiplications overlap
_INDEX = ir.IntType(64)


class Emitter:
    """Emits instructions on the rows of tiles, inside an intrinsic's code generator."""

    def __init__(self, context: Any, builder: Any, signature: Any, args: Sequence[Any]) -> None:
        self.context, self.builder = context, builder
        self.types, self.args = signature.args, args
        self.number = self.types[0].dtype
        self.real = context.get_value_type(self.number)
        self.num_lanes = self.types[-1].count
        self.vector = ir.VectorType(self.real, self.num_lanes)

    def data(self, position: int) -> Any:
        """Return the address of the first entry of an array argument."""
        array = self.context.make_array(self.types[position])
        return array(self.context, self.builder, self.args[position]).data

    def splat(self, position: int) -> Any:
        """Load a scalar argument into all lanes."""
        value = self.context.cast(
            self.builder, self.args[position], self.types[position], self.number
        )
        return self.broadcast(value, self.num_lanes)

    def broadcast(self, value: Any, lanes: int) -> Any:
        """Put a number into all of `lanes` lanes."""
        undefined = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
        first = self.builder.insert_element(undefined, value, ir.Constant(ir.IntType(32), 0))
        return self.builder.shuffle_vector(first, undefined, _mask([0] * lanes))

    def row(self, data: Any, index: Any, vector: ir.VectorType | None = None) -> Any:
        """Return the address of a row, as a vector."""
        offset = self.builder.mul(index, ir.Constant(_INDEX, self.num_lanes))
        return self.at(data, offset, vector or self.vector)

    def at(self, data: Any, offset: Any, vector: ir.VectorType) -> Any:
        """Return the address of a vector that starts at an entry of an array."""
        return self.builder.bitcast(self.builder.gep(data, [offset]), vector.as_pointer())

    def load(self, address: Any) -> Any:
        """Load the vector at an address, which need not be aligned to its size."""
        return self.builder.load(address, align=4)

    def store(self, value: Any, address: Any) -> None:
        """Write a vector to an address, which need not be aligned to its size."""
        self.builder.store(value, address, align=4)

    def load_row(self, data: Any, index: Any) -> Any:
        """Load a row, as a vector."""
        return self.load(self.row(data, index))

    def column(self, col: Any, edge: Any) -> Any:
        """Load the column of an edge."""
        return self.builder.zext(self.builder.load(self.builder.gep(col, [edge])), _INDEX)

    def edge(self, col: Any, val: Any, edge: Any) -> tuple[Any, Any]:
        """Load the column of an edge, and its value into all lanes."""
        value = self.builder.load(self.builder.gep(val, [edge]))
        return self.column(col, edge), self.broadcast(value, self.num_lanes)

    def prefetch(self, tiles: Sequence[Any], col: Any, edge: Any, position: int) -> None:
        """Prefetch the rows of an edge further on; the argument is (distance,), or () for none."""
        if self.types[position].count == 0:
            return
        ahead = self.builder.extract_value(self.args[position], 0)
        column = self.column(col, self.builder.add(edge, ahead))
        for tile in tiles:
            for start in range(0, self.num_lanes, CACHE_LINE * 8 // self.number.bitwidth):
                first = self.builder.mul(column, ir.Constant(_INDEX, self.num_lanes))
                offset = self.builder.add(first, ir.Constant(_INDEX, start))
                emit_prefetch(self.builder, self.builder.gep(tile, [offset]))

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        """Compute a * b + c, rounded once. llvmlite's own `fma` takes no vectors."""
        kind = "f32" if self.number == types.float32 else "f64"
        function = cgutils.get_or_insert_function(
            self.builder.module,
            ir.FunctionType(self.vector, [self.vector] * 3),
            f"llvm.fma.v{self.num_lanes}{kind}",
        )
        return self.builder.call(function, [a, b, c])

    def variables(self, count: int) -> list[Any]:
        """Make vectors that start at zero; LLVM keeps them in registers."""
        zero = ir.Constant(self.vector, [0.0] * self.num_lanes)
        return [cgutils.alloca_once_value(self.builder, zero) for _ in range(count)]

    def add_product(self, variable: Any, a: Any, b: Any) -> None:
        """Add a * b to a variable."""
        self.builder.store(self.fma(a, b, self.builder.load(variable)), variable)

    def total(self, variables: Sequence[Any]) -> Any:
        """Sum 2^n variables."""
        values = [self.builder.load(each) for each in variables]
        while len(values) > 1:
            values = [self.builder.fadd(a, b) for a, b in _pairs(values)]
        return values[0]

    def loop(
        self, start: Any, stop: Any, body: Callable[[list[Any]], Any], unroll: int = _UNROLL
    ) -> None:
        """Call `body` with the indices of `unroll` edges at a time, then of one at a time."""
        index = cgutils.alloca_once_value(self.builder, start)
        for width in (unroll, 1):
            blocks = [self.builder.append_basic_block() for _ in range(3)]
            self.builder.branch(blocks[0])
            self.builder.position_at_end(blocks[0])
            first = self.builder.load(index)
            after = self.builder.add(first, ir.Constant(_INDEX, width))
            more = self.builder.icmp_signed("<=", after, stop)
            self.builder.cbranch(more, blocks[1], blocks[2])
            self.builder.position_at_end(blocks[1])
            body([self.builder.add(first, ir.Constant(_INDEX, i)) for i in range(width)])
            self.builder.store(after, index)
            self.builder.branch(blocks[0])
            self.builder.position_at_end(blocks[2])

    def sums(self, vectors: list[Any], add: Callable[[Any, Any], Any] | None = None) -> Any:
        """Sum, or combine by another `add`, the lanes of each of 2^n vectors, as one vector.

        Halves of two vectors are added side by side, so that later additions serve both.
        """
        add = add or self.builder.fadd
        groups, lanes = 1, self.num_lanes
        while lanes > 1:
            merge = len(vectors) > 1
            pairs = list(_pairs(vectors)) if merge else [(vectors[0], vectors[0])]
            width = groups * lanes  # of each vector
            starts = [g * lanes for g in range(groups)]
            starts += [width + start for start in starts] if merge else []
            half = lanes // 2
            low = _mask([start + i for start in starts for i in range(half)])
            high = _mask([start + half + i for start in starts for i in range(half)])
            vectors = [
                add(self.builder.shuffle_vector(a, b, low), self.builder.shuffle_vector(a, b, high))
                for a, b in pairs
            ]
            groups, lanes = len(starts), half
        return vectors[0]


def _mask(lanes: list[int]) -> ir.Constant:
    return ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), lanes)


def _pairs(values: Sequence[Any]) -> list[tuple[Any, Any]]:
    return list(zip(values[::2], values[1::2], strict=True))


def row_function(body: Callable[..., Any]) -> Any:
    """Decorate a function that emits the instructions of an intrinsic.

    Args:
        body: called with the `Emitter` that its first argument is annotated with, and the
            arguments, as LLVM values. What it returns is a number of the type of the first array,
            or None.
    """
    is_number = body.__annotations__["return"] is not None
    emitter = next(iter(body.__annotations__.values()))

    def typed(typing: Any, *arguments: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            result = body(emitter(context, builder, signature, values), *values)
            return result if is_number else context.get_dummy_value()

        return (arguments[0].dtype if is_number else types.none)(*arguments), generate

    return intrinsic(update_wrapper(typed, body))


@row_function
def step_row(
    emit: Emitter, cur: Any, dst: Any, col: Any, val: Any, start: Any, stop: Any, row: Any,
    alpha: Any, ahead: Any, lanes: Any,
) -> None:  # fmt: skip
    """Set dst[row] = alpha * (sum over the edges of val * cur[col]) - dst[row]."""
    cur, dst, col, val = (emit.data(position) for position in range(4))
    sums = emit.variables(_UNROLL)

    def body(edges: list[Any]) -> None:
        for edge, variable in zip(edges, sums, strict=False):
            emit.prefetch([cur], col, edge, 8)
            column, value = emit.edge(col, val, edge)
            emit.add_product(variable, value, emit.load_row(cur, column))

    emit.loop(start, stop, body)
    address = emit.row(dst, row)
    scaled = emit.builder.fmul(emit.splat(7), emit.total(sums))
    emit.store(emit.builder.fsub(scaled, emit.load(address)), address)


@row_function
def adjoint_row(
    emit: Emitter, b: Any, b_next: Any, t: Any, t_next: Any, grad: Any, col: Any, val: Any,
    start: Any, middle: Any, stop: Any, row: Any, alpha: Any, ahead: Any, lanes: Any,
) -> None:  # fmt: skip
    """Compute a row of both recurrences of the adjoint, and the gradient of its lower edges.

    b_next[row] = alpha * (S b)[row] - b_next[row] and t_next[row] = 2 (S t)[row] - t_next[row];
    for edges below the diagonal, [start, middle), which come first in a row,
    grad += alpha * (<b[row], t[col]> + <b[col], t[row]>): the part of both directions.
    """
    builder = emit.builder
    b, b_next, t, t_next, grad, col, val = (emit.data(position) for position in range(7))
    own_b, own_t = emit.load_row(b, row), emit.load_row(t, row)
    # Two sums and two rows an edge: more of them would not fit into 32 registers of a line.
    unroll = max(1, _UNROLL * CACHE_LINE * 8 // (emit.num_lanes * emit.number.bitwidth))
    sums_b, sums_t = emit.variables(unroll), emit.variables(unroll)
    factor = emit.context.cast(builder, alpha, emit.types[11], emit.number)

    def gather(edges: list[Any]) -> list[tuple[Any, Any]]:
        rows = []
        for edge, sum_b, sum_t in zip(edges, sums_b, sums_t, strict=False):
            emit.prefetch([b, t], col, edge, 12)
            column, value = emit.edge(col, val, edge)
            other_b, other_t = emit.load_row(b, column), emit.load_row(t, column)
            emit.add_product(sum_b, value, other_b)
            emit.add_product(sum_t, value, other_t)
            rows.append((other_b, other_t))
        return rows

    def gather_and_multiply(edges: list[Any]) -> None:
        products = [
            emit.fma(own_b, other_t, builder.fmul(own_t, other_b))
            for other_b, other_t in gather(edges)
        ]
        count = len(edges)
        address = emit.at(grad, edges[0], ir.VectorType(emit.real, count))
        added = builder.fmul(emit.broadcast(factor, count), emit.sums(products))
        emit.store(builder.fadd(emit.load(address), added), address)

    emit.loop(start, middle, gather_and_multiply, unroll)
    emit.loop(middle, stop, gather, unroll)
    for sums, data, weight in ((sums_b, b_next, emit.splat(11)), (sums_t, t_next, None)):
        address, total = emit.row(data, row), emit.total(sums)
        doubled = builder.fadd(total, total) if weight is None else builder.fmul(weight, total)
        emit.store(builder.fsub(doubled, emit.load(address)), address)


@row_function
def clear_row(emit: Emitter, out: Any, row: Any, lanes: Any) -> None:
    """Set out[row] = 0."""
    emit.store(ir.Constant(emit.vector, [0.0] * emit.num_lanes), emit.row(emit.data(0), row))


@row_function
def add_row(
    emit: Emitter, out: Any, weight: Any, term: Any, out_row: Any, weight_row: Any, term_row: Any,
    lanes: Any,
) -> None:  # fmt: skip
    """Add weight[weight_row] * term[term_row] to out[out_row], lane by lane."""
    address = emit.row(emit.data(0), out_row)
    factors = emit.load_row(emit.data(1), weight_row), emit.load_row(emit.data(2), term_row)
    emit.store(emit.fma(*factors, emit.load(address)), address)


@row_function
def project_row(
    emit: Emitter, grad: Any, term: Any, out: Any, grad_row: Any, term_row: Any, out_row: Any,
    lanes: Any,
) -> None:  # fmt: skip
    """Add grad[grad_row] * term[term_row] to out[out_row], lane by lane, in float64."""
    product = emit.builder.fmul(
        emit.load_row(emit.data(0), grad_row), emit.load_row(emit.data(1), term_row)
    )
    wide = ir.VectorType(ir.DoubleType(), emit.num_lanes)
    if emit.vector != wide:
        product = emit.builder.fpext(product, wide)
    address = emit.row(emit.data(2), out_row, wide)
    emit.store(emit.builder.fadd(emit.load(address), product), address)


@row_function
def dot_row(emit: Emitter, a: Any, b: Any, row: Any, lanes: Any) -> Any:
    """Sum a[row] * b[row] over the lanes."""
    product = emit.builder.fmul(emit.load_row(emit.data(0), row), emit.load_row(emit.data(1), row))
    return emit.builder.extract_element(emit.sums([product]), ir.Constant(ir.IntType(32), 0))
