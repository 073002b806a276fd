"""What can be broken in a file: small changes of its code that some test should notice.

Messages, annotations and docstrings are left alone, and so are decorators without which nothing
would run at all.
"""

import ast
import random
from collections import defaultdict
from collections.abc import Iterator
from copy import deepcopy
from typing import NamedTuple

_BINARY = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult, ast.Mod: ast.Add, ast.Pow: ast.Mult, ast.MatMult: ast.Add,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
_COMPARISON = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_KEPT_DECORATORS = (
    "abstract", "class", "compiled", "dataclass", "intrinsic", "overload", "property", "register",
    "static", "custom_op", "impl", "jit", "setter",
)  # fmt: skip
_SPEECH = ("_log", "logger", "warnings")


class Mutant(NamedTuple):
    """A change of some bytes of a file."""

    start: int
    stop: int
    after: str
    kind: str
    scope: str  # the function that it is in, such as "Memory.recall"; "" outside of all
    line: int
    text: str  # that line
    before: str

    @property
    def key(self) -> str:
        """What says which change it is, whatever the lines above it."""
        return f"{self.scope} | {self.text} | {self.before} -> {self.after}"

    def apply(self, source: str) -> str:
        """The file with this change."""
        raw = source.encode()
        return (raw[: self.start] + self.after.encode() + raw[self.stop :]).decode()


def draw(source: str, count: int, seed: str) -> list[Mutant]:
    """Up to `count` mutants of a file, of each kind about as many, in the same draw every time."""
    by_kind = defaultdict(list)
    for mutant in mutants(source):
        by_kind[mutant.kind].append(mutant)
    generator, drawn = random.Random(seed), []
    piles = [generator.sample(pile, len(pile)) for _, pile in sorted(by_kind.items())]
    generator.shuffle(piles)
    while piles and len(drawn) < count:
        drawn += [pile.pop() for pile in piles]
        piles = [pile for pile in piles if pile]
    return drawn[:count]


def mutants(source: str) -> list[Mutant]:
    """All mutants of a file."""
    return list(_Breaker(source).walk(ast.parse(source), ()))


class _Breaker:
    def __init__(self, source: str) -> None:
        self.raw, self.lines = source.encode(), source.splitlines()
        self.begin = [0]
        for line in self.raw.splitlines(keepends=True):
            self.begin.append(self.begin[-1] + len(line))

    def walk(self, node: ast.AST, scope: tuple[str, ...]) -> Iterator[Mutant]:
        if isinstance(node, (ast.JoinedStr, ast.Import, ast.ImportFrom)) or _is_speech(node):
            return
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            scope = (*scope, node.name)
            yield from self._decorators(node, scope)
        for kind, part, after in _changes(node):
            start, stop = (self._offset(part, end) for end in (False, True))
            yield self._mutant(kind, start, stop, after, part.lineno, scope)
        for child in _children(node):
            yield from self.walk(child, scope)

    def _decorators(self, node: ast.FunctionDef | ast.ClassDef, scope: tuple[str, ...]) -> Iterator:
        for each in node.decorator_list:
            if not any(kept in ast.unparse(each) for kept in _KEPT_DECORATORS):
                start, stop = self._offset(each, False) - 1, self._offset(each, True)
                yield self._mutant("decorator", start, stop, "", each.lineno, scope)

    def _offset(self, node: ast.AST, end: bool) -> int:
        line, column = ("end_lineno", "end_col_offset") if end else ("lineno", "col_offset")
        return self.begin[getattr(node, line) - 1] + getattr(node, column)

    def _mutant(
        self, kind: str, start: int, stop: int, after: str, line: int, scope: tuple[str, ...]
    ) -> Mutant:
        before = self.raw[start:stop].decode()
        text = self.lines[line - 1].strip()
        return Mutant(start, stop, after, kind, ".".join(scope), line, text, before)


def _is_speech(node: ast.AST) -> bool:
    """A message, or what is read by type checkers alone."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return True
    return isinstance(node, ast.Expr) and (
        isinstance(node.value, ast.Constant) or ast.unparse(node).startswith(_SPEECH)
    )


def _children(node: ast.AST) -> Iterator[ast.AST]:
    for name, field in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "bases", "exc", "cause", "msg"):
            continue
        for child in field if isinstance(field, list) else [field]:
            if isinstance(child, ast.AST):
                yield child


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST, str]]:
    """The kind of each change, what it replaces, and by what."""
    if isinstance(node, ast.stmt):
        yield from _statement(node)
    if isinstance(node, (ast.If, ast.IfExp, ast.While)):
        yield "negate", node.test, f"(not ({ast.unparse(node.test)}))"
        if isinstance(node, ast.If):
            yield "force", node.test, "True"
            yield "force", node.test, "False"
    if isinstance(node, ast.expr):
        for kind, changed in _expression(node):
            yield kind, node, f"({ast.unparse(changed)})"


def _statement(node: ast.stmt) -> Iterator[tuple[str, ast.AST, str]]:
    if isinstance(node, ast.Raise):
        yield "raise", node, "pass"
    elif isinstance(node, ast.Expr):
        yield "statement", node, "pass"
    elif isinstance(node, ast.AugAssign):
        yield "statement", node, "pass"
        if type(node.op) in _BINARY:
            yield "operator", node, ast.unparse(_replaced(node, op=_BINARY[type(node.op)]()))
    elif isinstance(node, ast.Assign) and not isinstance(node.targets[0], (ast.Name, ast.Tuple)):
        yield "statement", node, "pass"
    elif isinstance(node, (ast.Break, ast.Continue)):
        yield "jump", node, "continue" if isinstance(node, ast.Break) else "break"


def _expression(node: ast.expr) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY and not _is_type(node):
        yield "operator", _replaced(node, op=_BINARY[type(node.op)]())
        yield "term", node.left
        yield "term", node.right
    elif isinstance(node, ast.Compare):
        for place, op in enumerate(node.ops):
            yield "comparison", _replaced(node, ops=_with(node.ops, place, _COMPARISON[type(op)]()))
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "boolean", _replaced(node, op=other)
        for place in range(len(node.values)):
            rest = node.values[:place] + node.values[place + 1 :]
            yield "condition", _replaced(node, values=rest) if len(rest) > 1 else rest[0]
    elif isinstance(node, ast.UnaryOp):
        yield "sign", node.operand
    elif isinstance(node, ast.Constant):
        yield from (("constant", ast.Constant(value)) for value in _other_values(node.value))
    elif isinstance(node, ast.Call):
        yield from _call(node)
    elif isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
        for place, loop in enumerate(node.generators):
            if loop.ifs:
                bare = _with(node.generators, place, _replaced(loop, ifs=[]))
                yield "condition", _replaced(node, generators=bare)


def _call(node: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    first = node.args[:2]
    plain = len(first) == 2 and not any(isinstance(each, ast.Starred) for each in first)
    plain = plain and ast.unparse(first[0]) != ast.unparse(first[1])
    if plain and ast.unparse(node.func) not in ("isinstance", "getattr", "max", "min"):
        yield "arguments", _replaced(node, args=[*first[::-1], *node.args[2:]])
    for place, keyword in enumerate(node.keywords):
        if keyword.arg not in (None, "strict"):
            rest = node.keywords[:place] + node.keywords[place + 1 :]
            yield "keyword", _replaced(node, keywords=rest)
    if (
        isinstance(node.func, ast.Attribute)
        and not node.args
        and not node.keywords
        and node.func.attr != "cpu"  # on a CPU it returns the tensor itself
    ):
        yield "method", node.func.value


def _other_values(value: object) -> list[object]:
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [value + 1, value - 1] if value else [1]
    return [2 * value or 1.0] if isinstance(value, float) else []


def _is_type(node: ast.BinOp) -> bool:
    """Such as ``int | None``."""
    return isinstance(node.op, ast.BitOr) and "None" in ast.unparse(node)


def _replaced(node: ast.AST, **fields: object) -> ast.AST:
    changed = deepcopy(node)
    for name, value in fields.items():
        setattr(changed, name, value)
    return changed


def _with(values: list, place: int, value: object) -> list:
    return [*values[:place], value, *values[place + 1 :]]
