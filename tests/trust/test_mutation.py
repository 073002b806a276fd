"""The script that breaks the package still does, and a few of its mutants die."""

import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest
from trust.mutants import draw, mutants
from trust.reach import Reach, noting

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
