"""The script that breaks the package still does, and a few of its mutants die."""

import ast
import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest
from trust.mutants import draw, mutants
from trust.reach import Reach, noting, take_note

SOURCE = '''
def total(values: list[int | None], start: int = 0) -> int:
    """Add up: 1 + 1."""
    if not values:
        raise ValueError(f"Expected {start + 1} values.")
    for value in values:
        start += value * 2
    logger.info("%d", 7)
    return min(start, 9)
'''


def test_what_can_be_broken():
    changes = {f"{mutant.before} -> {mutant.after}" for mutant in mutants(SOURCE)}
    assert changes == {
        "0 -> (1)",
        "not values -> True",
        "not values -> False",
        "not values -> (not (not values))",
        "not values -> (values)",
        'raise ValueError(f"Expected {start + 1} values.") -> pass',
        "start += value * 2 -> pass",
        "start += value * 2 -> start -= value * 2",
        "value * 2 -> (value / 2)",
        "value * 2 -> (value)",
        "value * 2 -> (2)",
        "2 -> (3)",
        "2 -> (1)",
        "9 -> (10)",
        "9 -> (8)",
    }


def test_every_mutant_is_another_program():
    for mutant in mutants(SOURCE):
        changed = mutant.apply(SOURCE)
        compile(changed, "mutant", "exec")
        assert changed != SOURCE
        assert mutant.scope == "total"
    assert draw(SOURCE, 5, "0") == draw(SOURCE, 5, "0")
    assert len({mutant.kind for mutant in draw(SOURCE, 5, "0")}) == 5


def test_who_reaches_a_function():
    noted = noting(SOURCE, "a.py")
    called = []
    exec(noted, names := {"__hit__": called.append, "logger": logging.getLogger()})
    assert names["total"]([1]) == 2
    assert called == ["a.py:total"]
    reach = Reach({"a.py:total": ["slow", "fast"], "b.py:f": ["other"]}, {"slow": 2, "fast": 1}, [])
    assert reach.tests("a.py", "total.inner") == ["fast", "slow"]
    assert reach.tests("a.py", "") == ["fast", "slow"]


def test_notes_leave_the_docstring_of_the_package(tmp_path):
    package = tmp_path / "jsem_pyg"
    package.mkdir()
    (package / "__init__.py").write_text('"""What it\nis."""\n\nX = 1\n')
    (package / "a.py").write_text("def f():\n    return 2\n")
    take_note(tmp_path)
    noted = (package / "__init__.py").read_text()
    assert ast.get_docstring(ast.parse(noted)) == "What it\nis."
    assert "'__hit__'" in noted
    assert "__hit__('jsem_pyg/a.py:f')" in (package / "a.py").read_text()


@pytest.mark.slow
def test_a_few_mutants(tmp_path):
    script, report = Path(__file__).with_name("mutation.py"), tmp_path / "report.json"
    path = "jsem_pyg/_groups.py"
    first, _ = draw((Path(__file__).parents[2] / path).read_text(), 2, f"0{path}")
    report.write_text(json.dumps([{"file": path, "key": first.key, "outcome": "survived"}]))
    arguments = ["--per-file", "2", "--tests", "tests/test_groups.py", "--report", str(report)]
    subprocess.run([sys.executable, str(script), path, *arguments], check=True)
    outcomes = [row["outcome"] for row in json.loads(report.read_text())]
    assert outcomes == ["survived", "killed"]  # the first of a run before this
