"""The shape of the house: import order, lazy imports, documented public names."""

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import jsem_pyg

ROOT = Path(jsem_pyg.__file__).parent
STAGES = [
    "datasets",
    "graph",
    "curvature",
    "operators",
    "diffusion",
    "partition",
    "transport",
    "nn",
    "evaluation",
    "training",
    "transforms",
    "estimators",
    "jax",
    "report",
    "command",
]
GROUND = {
    "kernels",
    "_checks",
    "_files",
    "_fingerprint",
    "_groups",
    "_mapped_pages",
    "_precision",
    "_progress",
    "_tensor_file",
}  # what any stage may stand on
# Heavy, and of use to some calls only; of the dependencies numpy and scipy.sparse may be loaded.
LAZY = [
    "click",
    "faiss",
    "jax",
    "jinja2",
    "matplotlib",
    "networkx",
    "numba",
    "pandas",
    "plotly",
    "pyarrow",
    "rich",
    "safetensors",
    "scipy.optimize",
    "scipy.stats",
    "sentence_transformers",
    "skimage",
    "sklearn",
    "tensorboard",
    "triton",
    "umap",
]


def imported_parts(path):
    """The parts of jsem_pyg that a file imports from, such as "operators" or "_checks"."""
    package = path.relative_to(ROOT.parent).with_suffix("").parts[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            full = [*base, *(node.module or "").split(".")]
            names = [full[1]] if len(full) > 1 and full[1] else [a.name for a in node.names]
            yield from names
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("jsem_pyg."):
            yield node.module.split(".")[1]


@pytest.mark.parametrize("stage", STAGES)
def test_a_stage_imports_only_stages_above_it(stage):
    allowed = {*STAGES[: STAGES.index(stage) + 1], *GROUND}
    for path in (ROOT / stage).rglob("*.py"):
        assert set(imported_parts(path)) <= allowed, path


def test_kernels_know_no_stage():
    for path in (ROOT / "kernels").rglob("*.py"):
        assert set(imported_parts(path)) <= {"kernels", "_checks", "_groups", "_precision"}, path


def test_the_ground_floor_knows_no_stage():
    for path in ROOT.glob("_[a-z]*.py"):
        assert path.stem in GROUND
        assert set(imported_parts(path)) <= GROUND - {"kernels"}, path


def test_the_import_check_sees_imports():
    assert "operators" in set(imported_parts(ROOT / "diffusion" / "evolve.py"))
    assert "kernels" in set(imported_parts(ROOT / "operators" / "laplacian.py"))


def test_importing_the_package_loads_nothing_optional():
    # What PyG itself loads (numba, where it is installed) is not our doing.
    code = "import sys, torch_geometric; before = set(sys.modules); import jsem_pyg; "
    code += "print(*sorted(set(sys.modules) - before))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert "jsem_pyg" in loaded
    assert not set(LAZY) & loaded


@pytest.mark.parametrize("part", [*STAGES, "testing"])
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
