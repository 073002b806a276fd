"""Which tests reach which functions: found in one run of the tests, on code that takes note."""

import ast
import builtins
import json
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

# Decorators that take no strangers' calls, or answer all calls but the first by themselves.
_UNSEEN = ("compiled", "intrinsic", "jit", "cache")


class Reach(NamedTuple):
    """What a run has found, by names of tests as pytest has them."""

    functions: dict[str, list[str]]  # "path:Class.method" -> the tests that get there
    seconds: dict[str, float]
    failed: list[str]

    def tests(self, path: str, scope: str) -> list[str]:
        """The tests that reach a function, or if none does, what it stands in, or its file."""
        while scope and f"{path}:{scope}" not in self.functions:
            scope = scope.rpartition(".")[0]
        wanted = f"{path}:{scope}"
        found = [
            test
            for name, tests in self.functions.items()
            if name == wanted or (not scope and name.startswith(wanted))
            for test in tests
        ]
        return sorted(set(found) - set(self.failed), key=lambda test: self.seconds[test])

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(self._asdict()))


def load(path: Path, root: Path) -> Reach:
    """What was saved, as far as the tests are still in a tree."""
    reach = Reach(**json.loads(path.read_text()))
    gone = [test for test in reach.seconds if not (root / test.partition("::")[0]).exists()]
    return reach._replace(failed=sorted({*reach.failed, *gone}))


def take_note(root: Path) -> None:
    """Let every function of a copy of the package note that it was called."""
    for path in (root / "jsem_pyg").rglob("*.py"):
        path.write_text(noting(path.read_text(), str(path.relative_to(root))))
    main = root / "jsem_pyg" / "__init__.py"
    lines = main.read_text().splitlines()
    after = ast.parse(main.read_text()).body[0].end_lineno  # the docstring, which a test reads
    lines[after:after] = ["import builtins", "builtins.__dict__.setdefault('__hit__', set().add)"]
    main.write_text("\n".join(lines) + "\n")


def noting(source: str, path: str) -> str:
    lines = source.splitlines()
    places: list[tuple[int, str]] = []

    def visit(node: ast.AST, scope: tuple[str, ...]) -> None:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            scope = (*scope, node.name)
            if any(name in ast.unparse(each) for each in node.decorator_list for name in _UNSEEN):
                return
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            if body and body[0].lineno > node.lineno:
                first = body[0]
                decorators = getattr(first, "decorator_list", [])
                line = min([first.lineno, *(each.lineno for each in decorators)])
                name = f"{path}:{'.'.join(scope)}"
                places.append((line - 1, f"{' ' * first.col_offset}__hit__({name!r})"))
        for child in ast.iter_child_nodes(node):
            visit(child, scope)

    visit(ast.parse(source), ())
    for line, call in sorted(places, reverse=True):
        lines.insert(line, call)
    return "\n".join(lines) + "\n"


class Notes:
    """A plugin of pytest that collects them, test by test."""

    def __init__(self) -> None:
        self.hits: set[str] = set()
        self.functions: dict[str, list[str]] = defaultdict(list)
        self.seconds: dict[str, float] = defaultdict(float)
        self.failed: set[str] = set()
        builtins.__hit__ = lambda name: self.hits.add(name)  # type: ignore[attr-defined]

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] += report.duration
        if report.failed:
            self.failed.add(report.nodeid)
        if report.when == "teardown":
            for name in self.hits:
                self.functions[name].append(report.nodeid)
            self.hits.clear()

    def reach(self) -> Reach:
        return Reach(dict(self.functions), dict(self.seconds), sorted(self.failed))
