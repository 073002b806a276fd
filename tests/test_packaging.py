"""What pip is told: pins and ranges that fit together on every Python that is promised."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import jsem_pyg
from jsem_pyg._extras import EXTRAS

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PYTHONS = [
    each.rsplit(" ", 1)[1]
    for each in PROJECT["classifiers"]
    if each.startswith("Programming") and "." in each
]


def applying(lines, python):
    requirements = map(Requirement, lines)
    environment = {"python_version": python, "extra": ""}
    return [each for each in requirements if not each.marker or each.marker.evaluate(environment)]


def pins(python):
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = applying([line for line in lines if line and line[0] != "#"], python)
    names = [each.name.lower() for each in pinned]
    assert len(set(names)) == len(names)
    return {each.name.lower(): str(each.specifier).removeprefix("==") for each in pinned}


def test_the_package_says_its_version():
    assert jsem_pyg.__version__ == PROJECT["version"]


@pytest.mark.parametrize("python", PYTHONS)
def test_pins_are_in_the_ranges(python):
    pinned = pins(python)
    extras = PROJECT["optional-dependencies"].values()
    for group in [PROJECT["dependencies"], *extras]:
        for requirement in applying(group, python):
            version = pinned.get(requirement.name.lower())
            assert version is None or requirement.specifier.contains(version), requirement


def test_every_extra_that_errors_name_is_one():
    assert set(EXTRAS.values()) <= set(PROJECT["optional-dependencies"])


PLAIN = """
import torch
from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.nn import AnisotropicDiffusion
from jsem_pyg.training import fit
from jsem_pyg.transforms import FaissKNNGraph, FormanCurvature
from jsem_pyg.__main__ import main
from torch_geometric.data import Data

data = FormanCurvature()(FaissKNNGraph(5)(Data(x=torch.randn(40, 3))))
result = fit(AnisotropicDiffusion(), data, epochs=1)
heat_diffusion(data.x, data.edge_index, data.edge_weight)
try:
    result.to_pandas()
except ImportError as error:
    print(error)
main()
"""


@pytest.mark.ci
def test_a_plain_installation_computes_and_names_the_extras_that_it_lacks():
    # Jinja comes with PyG.
    hidden = [name for name in [*EXTRAS, "rich", "matplotlib"] if name != "jinja2"]
    code = f"import sys; sys.modules.update(dict.fromkeys({hidden}))" + PLAIN
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "FitResult.to_pandas needs the package 'pandas'" in run.stdout, run.stderr
    assert 'pip install "jsem_pyg[tables]"' in run.stdout
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1].endswith('pip install "jsem_pyg[command]"')


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("vendor.github-workflows", ".github/workflows/*.yml"),
        ("vendor.readthedocs", ".readthedocs.yaml"),
        ("vendor.github-issue-forms", ".github/ISSUE_TEMPLATE/[bi]*.yml"),
    ],
)
def test_settings_of_hosting_services_follow_their_schema(schema, files):
    paths = [str(path) for path in ROOT.glob(files)]
    assert paths
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *paths]
    done = subprocess.run(check, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_workflows_call_scripts_that_exist():
    for path in ROOT.glob(".github/workflows/*.yml"):
        jobs = yaml.safe_load(path.read_text())["jobs"]
        for job in jobs.values():
            for step in job["steps"]:
                for script in re.findall(r"bash (\.ci/\w+)", step.get("run", "")):
                    assert (ROOT / script).exists()
            for script in job.get("strategy", {}).get("matrix", {}).get("script", []):
                assert (ROOT / ".ci" / script).exists()


def test_conda_recipe_requires_what_pip_requires():
    recipe = yaml.safe_load((ROOT / ".ci/conda/recipe.yaml").read_text())
    assert recipe["context"]["version"] == PROJECT["version"]
    names = {"torch": "pytorch", "torch-geometric": "pytorch_geometric"}
    required = [Requirement(line) for line in PROJECT["dependencies"]]
    ours = {f"{names.get(each.name, each.name)} {each.specifier}" for each in required}
    ours.add(f"python {PROJECT['requires-python']}")
    assert set(recipe["requirements"]["run"]) == ours
    scripts = {f"{name} = {target}" for name, target in PROJECT["scripts"].items()}
    assert set(recipe["build"]["python"]["entry_points"]) == scripts
