"""The shape of the house: import order, circles of files, lazy imports, documented public names."""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from functools import cache
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

import jsem_pyg

ROOT = Path(jsem_pyg.__file__).parent
REPOSITORY = Path(__file__).parents[1]
# The one order of the stages is that of the package's docstring; the adapters come after them.
STAGES = re.findall(r"^\d+\. :mod:`~jsem_pyg\.(\w+)`", jsem_pyg.__doc__, re.MULTILINE)
PARTS = [*STAGES, "transforms", "estimators", "anndata", "jax", "report", "command"]
GROUND = {
    "kernels",
    "_checks",
    "_extras",
    "_files",
    "_fingerprint",
    "_groups",
    "_mapped_pages",
    "_precision",
    "_progress",
    "_random",
    "_table_files",
    "_tensor_file",
}  # what any stage may stand on
# Heavy, and of use to some calls only; of the dependencies numpy and scipy.sparse may be loaded.
LAZY = [
    "anndata",
    "click",
    "faiss",
    "huggingface_hub",
    "jax",
    "jinja2",
    "matplotlib",
    "networkx",
    "numba",
    "pandas",
    "plotly",
    "pyarrow",
    "safetensors",
    "scipy.optimize",
    "scipy.stats",
    "sentence_transformers",
    "skimage",
    "sklearn",
    "triton",
    "umap",
]


@cache
def imports(path):
    """The modules and names that a file imports from this package, such as `("graph", "affinity")`.

    Imports inside of functions and under TYPE_CHECKING count as well.
    """
    return tuple(_imports(path))


def _imports(path):
    package = path.relative_to(ROOT.parent).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = (*base, *(node.module or "").split(".")) if node.module else base
            if module and module[0] == ROOT.name:
                yield from ((*module[1:], alias.name) for alias in node.names)


def imported_parts(path):
    """The parts of jsem_pyg that a file imports from, such as "operators" or "_checks"."""
    return {name[0] for name in imports(path)}


def file_of(name):
    """The file that defines an imported name: that of a module, or of the package around it."""
    for parts in (name, name[:-1]):
        for path in (
            ROOT.joinpath(*parts).with_suffix(".py"),
            ROOT.joinpath(*parts, "__init__.py"),
        ):
            if path.is_file():
                return path
    raise AssertionError(f"nothing defines {name}")


def circles(arrows):
    """The sets of names from each of which all others of the set are reached."""
    names = sorted(set(arrows) | set(chain(*arrows.values())))
    reach = np.eye(len(names), dtype=bool)
    for start, ends in arrows.items():
        reach[names.index(start), [names.index(end) for end in ends]] = True
    for middle in range(len(names)):
        reach |= reach[:, middle, None] & reach[middle]
    together = {tuple(row) for row in reach & reach.T if row.sum() > 1}
    return [{name for name, there in zip(names, row, strict=True) if there} for row in together]


def test_no_files_import_each_other():
    names = {path: str(path.relative_to(ROOT).with_suffix("")) for path in ROOT.rglob("*.py")}
    arrows = {
        names[path]: {names[file_of(each)] for each in imports(path)} - {names[path]}
        for path in names
    }
    found = circles(arrows)
    assert found == []


def test_everybody_has_the_same_order_of_stages():
    for number, stage in enumerate(STAGES):
        first = (ROOT / stage / "__init__.py").read_text().splitlines()[0]
        assert first.startswith(f'"""Stage {number}: '), f"{stage}: {first}"
    for index in ("docs/guide/index.md", "docs/api/index.rst"):
        pages = re.findall(
            r"^ *(?:generated/)?(\w+)$", (REPOSITORY / index).read_text(), re.MULTILINE
        )
        assert [page for page in pages if page in PARTS] == PARTS, index


@pytest.mark.parametrize("part", PARTS)
def test_a_stage_imports_only_stages_above_it(part):
    allowed = {*PARTS[: PARTS.index(part) + 1], *GROUND}
    for path in (ROOT / part).rglob("*.py"):
        assert imported_parts(path) <= allowed, path


def test_kernels_know_no_stage():
    for path in (ROOT / "kernels").rglob("*.py"):
        assert imported_parts(path) <= {"kernels", "_checks", "_extras", "_groups"}, path


def test_the_ground_floor_knows_no_stage():
    for path in (*ROOT.glob("_[a-z]*.py"), *ROOT.glob("_[a-z]*/*.py")):
        assert path.relative_to(ROOT).with_suffix("").parts[0] in GROUND
        assert imported_parts(path) <= GROUND - {"kernels"}, path


@pytest.mark.ci
def test_importing_the_package_loads_nothing_optional():
    # What PyG itself loads (numba, where it is installed) is not our doing.
    parts = ", ".join(f"jsem_pyg.{part}" for part in [*STAGES, "transforms"])
    code = f"import torch_geometric; before = set(sys.modules); import {parts}; "
    loaded = modules_after(f"{code}[sys.modules.pop(each) for each in before - {{'sys'}}]")
    assert not set(LAZY) & loaded


def test_the_command_starts_without_torch():
    code = "from jsem_pyg.command import main; main(['map', '--help'], standalone_mode=False)"
    loaded = modules_after(code)
    assert "jsem_pyg.command.program" in loaded
    assert not {"torch", "torch_geometric", "sklearn", "pandas", "scipy", "numba"} & loaded


def modules_after(code):
    """The names of the modules that are loaded in a new process after it ran `code`."""
    code = f"import sys; {code}; print(); print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("part", PARTS)
def test_public_names_exist_and_are_documented(part):
    if part == "jax":
        pytest.importorskip("jax.numpy", reason="needs the extra [jax]")
    module = importlib.import_module(f"jsem_pyg.{part}")
    assert module.__doc__
    names = getattr(module, "__all__", None) or [
        name for name, _ in inspect.getmembers(module, inspect.isfunction) if name[0] != "_"
    ]
    assert names
    for name in names:
        documented = getattr(module, name)
        if callable(documented):
            assert inspect.getdoc(documented), name
