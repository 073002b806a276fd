"""Break the package in many small ways, and count how many of them the tests notice.

    python tests/trust/mutation.py --per-file 10 --report mutants.json jsem_pyg/kernels

Tools for this exist, such as mutmut and cosmic-ray, but they start a process and import torch for
each mutant, and choose its tests by file or not at all: minutes a mutant here. This script imports
everything but the package once, forks for each mutant, and runs the tests that reach the mutated
function, the fast ones first, in a copy of the tree, until one fails or a time is over.

Mutants that cannot be noticed by any test are listed in `equivalent_mutants.toml`, with a reason.
"""

import argparse
import contextlib
import gc
import importlib
import json
import logging
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from mutants import Mutant, draw, mutants
from reach import Notes, Reach, load, take_note

_log = logging.getLogger(__name__)

ROOT = Path(__file__).parents[2]
EQUIVALENT = Path(__file__).with_name("equivalent_mutants.toml")
PARTS = [
    *("kernels", "datasets", "graph", "curvature", "operators", "diffusion", "partition"),
    *("transport", "nn", "evaluation", "training", "transforms", "estimators", "jax", "report"),
    *("command", "cells", "models"),
]
# Where tests of these stand; examples and notebooks take too long.
TESTS = [
    *(f"tests/{part}" for part in PARTS),
    *(f"tests/test_{each}.py" for each in ("architecture", "checks", "files", "fingerprint")),
    *(f"tests/test_{each}.py" for each in ("groups", "journal", "progress")),
    *("tests/test_table_files.py", "tests/test_tensor_file.py"),
    *(f"tests/trust/test_{each}.py" for each in ("bad_input", "layouts", "silent_input")),
    "tests/trust/test_differential.py",
    *(
        f"tests/trust/test_differential_{each}.py"
        for each in ("cells", "changes", "estimators", "filters", "geometry", "tables", "transport")
    ),
    "jsem_pyg",
]
# Compiled code takes no notes: whoever reaches what calls it reaches it.
CALLERS = {
    "jsem_pyg/kernels/chebyshev/backward.py": "jsem_pyg/kernels/chebyshev/numba_cpu.py",
    "jsem_pyg/kernels/chebyshev/forward.py": "jsem_pyg/kernels/chebyshev/numba_cpu.py",
    "jsem_pyg/kernels/chebyshev/simd.py": "jsem_pyg/kernels/chebyshev/numba_cpu.py",
    "jsem_pyg/kernels/sinkhorn/numba_fused.py": "jsem_pyg/kernels/sinkhorn/numba_cpu.py",
    "jsem_pyg/kernels/sinkhorn/vectors.py": "jsem_pyg/kernels/sinkhorn/numba_cpu.py",
    "jsem_pyg/kernels/prefetch.py": "jsem_pyg/kernels/edges/numba_count.py",
}
# In processes of their own, or while a module is imported, no notes are taken: what begins so
# has these tests, too.
ALWAYS = {
    "jsem_pyg/": "tests/test_signatures.py",  # of defaults
    "jsem_pyg/kernels/chebyshev/triton_gpu.py": "tests/kernels/test_triton.py",
    "jsem_pyg/kernels/sinkhorn/triton_gpu.py": "tests/kernels/test_triton.py",
    "jsem_pyg/partition/processes/": "tests/partition/processes/test_distributed.py",
    "jsem_pyg/training/distributed_run.py": "tests/partition/processes/test_distributed.py",
    "jsem_pyg/command/__init__.py": "tests/command/test_info.py",
    "jsem_pyg/jax/__init__.py": "tests/jax/test_functional.py",
}
NEEDED = ["hypothesis", "numba", "pytest", "torch_geometric.nn", "torch_geometric.loader"]
USEFUL = [
    "scipy.sparse.csgraph", "scipy.optimize", "scipy.stats", "sklearn.cluster", "pandas", "faiss",
    "sklearn.linear_model", "sklearn.metrics", "safetensors.torch",
    "torch._dynamo", "torch._inductor", "torch.testing",
]  # fmt: skip
PYTEST = ["-x", "-q", "--assert=plain", "-p", "no:cacheprovider", "-p", "no:xdist"]
PYTEST += ["-m", "not slow"]
MEMORY, FILE_SIZE = 16 << 30, 1 << 30  # bytes, of a mutant that takes all it can get
FIRST_TESTS, MORE_TESTS = 20.0, 40.0  # seconds; the latter for mutants that survive the former
MOST_TESTS = 300  # of which finding each by its name takes a while


def make_copy(folder: Path) -> Path:
    """The tree as it stands, without what git ignores."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in names.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


def run(copy: Path, cache: Path, job: Callable[[], int], log: Path, limit: float) -> int:
    """Do a job in a fork that sees the copy's package; what it returns, or -1 after a time limit.

    A signal that ends it counts as a failure too.
    """
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            _enter(copy, cache, log)
            code = job()
        finally:
            os._exit(code)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)  # whatever it has started and left behind
            return abs(os.waitstatus_to_exitcode(status))
        time.sleep(0.02)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return -1


def _enter(copy: Path, cache: Path, log: Path) -> None:
    os.setsid()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_SIZE, FILE_SIZE))
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(output, stream)
    os.chdir(copy)
    sys.path[:0] = [str(copy), str(copy / "tests")]
    os.environ["PYTHONPATH"] = f"{copy}:{copy / 'tests'}"
    os.environ["NUMBA_CACHE_DIR"] = str(cache)
    sys.modules["numba"].config.CACHE_DIR = str(cache)  # type: ignore[attr-defined]


def run_tests(tests: list[str], *plugins: object) -> int:
    """Pytest's exit code."""
    import pytest

    return int(pytest.main([*PYTEST, *tests], plugins=list(plugins)))


class Those:
    """A plugin that runs some tests of their files, as far as they are there."""

    def __init__(self, tests: list[str]) -> None:
        self.tests = set(tests)
        self.files = sorted({test.partition("::")[0] for test in tests})

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items[:] = [item for item in items if item.nodeid in self.tests]

    def run(self) -> int:
        return run_tests(self.files, self)


def find_reach(copy: Path, cache: Path, where: list[str]) -> Reach:
    """Run all tests once on code that takes notes."""
    found = copy / "reach.json"

    def job() -> int:
        notes = Notes()
        run_tests(["--maxfail=1000", *where], notes)
        notes.reach().save(found)
        return 0

    take_note(copy)
    run(copy, cache, job, copy / "log", 3600)
    reach = load(found, copy)
    if not reach.functions:
        raise RuntimeError("No test ran: " + (copy / "log").read_text()[-2000:])
    return reach


def retry_failed(copy: Path, cache: Path, reach: Reach) -> Reach:
    """Tests that fail by taking notes, as in compiled code, count where they pass without."""
    still = [
        test
        for test in reach.failed
        if run(copy, cache, lambda test=test: run_tests([test]), copy / "log", 300) != 0
    ]
    return reach._replace(failed=still)


def some_tests(tests: list[str], seconds: dict[str, float], limit: float) -> list[str]:
    """One case of every test, then the next of each, the fast ones first, within a time."""
    cases, taken, total = defaultdict(list), [], 0.0
    for test in tests:
        cases[test.partition("[")[0]].append(test)
    for turn in zip_longest(*cases.values()):
        for test in filter(None, turn):
            if len(taken) < MOST_TESTS and total + seconds.get(test, 0) < limit:
                taken.append(test)
                total += seconds.get(test, 0)
    return taken


class Workplace:
    """A copy of the tree in which one mutant after another lives."""

    def __init__(self, folder: Path, reach: Reach, chosen: list[str]) -> None:
        self.copy, self.cache = make_copy(folder / "copy"), folder / "cache"
        self.log, self.spare = folder / "log", folder / "spare"
        self.cache.mkdir()
        self.reach, self.chosen, self.killer = reach, chosen, ""

    def outcome(self, path: str, mutant: Mutant, more: float = MORE_TESTS) -> str:
        """What becomes of a mutant: "killed", "timeout", "survived" or "untested".

        Args:
            path: the file that it is in.
            mutant: the change.
            more: seconds of further tests for one that survives the first.
        """
        file = self.copy / path
        source = file.read_text()
        for old in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
            old.unlink()  # as old as the mutant, and as long, it might be taken for it
        file.write_text(mutant.apply(source))
        try:
            return self._judge(path, mutant, more)
        finally:
            file.write_text(source)
            if not _is_compiled(path, source) and self.spare.exists():
                shutil.rmtree(self.cache)  # all that has been compiled is as it was, and more
                self.spare.rename(self.cache)

    def _judge(self, path: str, mutant: Mutant, more: float) -> str:
        self.killer = ""
        tests = self.chosen or self._tests(path, mutant.scope)
        if not tests:
            return "untested"
        first = some_tests(tests, self.reach.seconds, FIRST_TESTS)
        rest = [test for test in tests if test not in set(first)]
        rest = some_tests(rest, self.reach.seconds, more)
        shutil.rmtree(self.spare, ignore_errors=True)
        shutil.copytree(self.cache, self.spare, copy_function=os.link)
        for part in (first, rest):
            if not part:
                continue
            limit = 120 + 5 * sum(self.reach.seconds.get(test, 60) for test in part)
            code = run(self.copy, self.spare, lambda p=part: run_tests(p), self.log, limit)
            if code == 4:  # a mutant, such as a backend that cannot run, may take tests away
                code = run(self.copy, self.spare, Those(part).run, self.log, limit)
            if code in (4, 5, 70):
                _log.error("Pytest could not run: %s", self.log.read_text()[-2000:])
                return "error"
            if code:
                self.killer = self._failed_test()
                return "timeout" if code == -1 else "killed"
        return "survived"

    def _tests(self, path: str, scope: str) -> list[str]:
        """The tests that reach a function, or else its file, and those that always run."""
        place = CALLERS.get(path, path)
        found = self.reach.tests(place, scope) or self.reach.tests(place, "")
        return found + [test for begin, test in ALWAYS.items() if path.startswith(begin)]

    def set_aside_what_a_comment_kills(self, path: str) -> None:
        """Tests that fail by themselves, such as those that cannot stand that numba compiles."""
        source = (self.copy / path).read_text()
        if not _is_compiled(path, source):
            return
        end = len(source.encode())
        comment = Mutant(end, end, "# harmless", "comment", "", 0, "", "")
        while self.outcome(path, comment, 0.0) == "killed":
            test = self.killer.split(" ")[1]
            _log.warning("%s fails without a reason.", test)
            self.reach.failed.append(test)

    def _failed_test(self) -> str:
        """What the last mutant died of."""
        lines = self.log.read_text(errors="replace").splitlines()
        return next((line for line in lines if line.startswith(("FAILED", "ERROR"))), "")


def _is_compiled(path: str, source: str) -> bool:
    """Whether numba compiles some of a file."""
    return path in CALLERS or "@compiled(" in source


def files(root: Path, paths: list[str]) -> Iterator[str]:
    """The files with something to break."""
    for path in paths:
        whole = root / path
        for file in sorted(whole.rglob("*.py")) if whole.is_dir() else [whole]:
            if mutants(file.read_text()):
                yield str(file.relative_to(root))


def known_equivalent() -> set[tuple[str, str]]:
    """The file and key of each mutant that no test can notice."""
    listed = tomllib.loads(EQUIVALENT.read_text()).get("mutant", []) if EQUIVALENT.exists() else []
    return {(each["file"], each["key"]) for each in listed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", default=["jsem_pyg"], help="files or folders to break")
    parser.add_argument("--per-file", type=int, default=10)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--tests", nargs="*", default=[], help="instead of those that reach")
    parser.add_argument("--reach", type=Path, help="keep what reaches what here, or take it")
    parser.add_argument("--report", type=Path, help="a JSON file; what it has is not tried again")
    parser.add_argument("--only", help="mutants whose key holds this text")
    options = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stdout)
    _log.setLevel(logging.INFO)
    for name in [*NEEDED, *([] if options.tests else USEFUL)]:
        importlib.import_module(name)
    gc.freeze()  # nothing for the forks to look through
    with tempfile.TemporaryDirectory() as folder:
        report = measure(options, Path(folder))
    say_totals(report)


def measure(options: argparse.Namespace, folder: Path) -> list[dict[str, str]]:
    """What became of each mutant; written down as it comes, so that a run can be continued."""
    reach = Reach({}, {}, [])
    if options.reach and options.reach.exists():
        reach = load(options.reach, ROOT)
    elif not options.tests:
        (folder / "notes-cache").mkdir()
        reach = find_reach(make_copy(folder / "notes"), folder / "notes-cache", TESTS)
    place = Workplace(folder, reach, options.tests)
    if reach.failed and not (options.reach and options.reach.exists()):
        place.reach = reach = retry_failed(place.copy, place.cache, reach)
    if options.reach:
        reach.save(options.reach)
    if options.tests and run(
        place.copy, place.cache, lambda: run_tests(options.tests), place.log, 600
    ):
        raise RuntimeError("Tests fail without any mutant: " + place.log.read_text()[-2000:])
    equivalent, report = known_equivalent(), []
    if options.report and options.report.exists():
        report = json.loads(options.report.read_text())
    done = {(row["file"], row["key"]) for row in report}
    for path in files(place.copy, options.paths):
        place.set_aside_what_a_comment_kills(path)
        for mutant in draw((place.copy / path).read_text(), options.per_file, options.seed + path):
            if (path, mutant.key) in done or (options.only and options.only not in mutant.key):
                continue
            start = time.monotonic()
            known = (path, mutant.key) in equivalent
            outcome = "equivalent" if known else place.outcome(path, mutant)
            seconds = f"{time.monotonic() - start:.1f}"
            row = {"file": path, "line": str(mutant.line), "kind": mutant.kind, "key": mutant.key}
            report.append(row | {"outcome": outcome, "seconds": seconds, "by": place.killer})
            if options.report:
                options.report.write_text(json.dumps(report, indent=1))
            _log.info("%-10s %6s s  %s:%s  %s", outcome, seconds, path, mutant.line, mutant.key)
    return report


def say_totals(report: list[dict[str, str]]) -> None:
    """File by file, how many there were and how many were noticed."""
    by_file = defaultdict(Counter)
    for row in report:
        by_file[row["file"]][row["outcome"]] += 1
        by_file["in all"][row["outcome"]] += 1
    for name, counts in by_file.items():
        killed = counts["killed"] + counts["timeout"]
        real = sum(counts.values()) - counts["equivalent"]
        equivalent = counts["equivalent"]
        _log.info("%s: %s of %s killed, %s equivalent", name, killed, real, equivalent)


if __name__ == "__main__":
    main()
