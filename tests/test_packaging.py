"""What pip is told: pins and ranges that fit together on every Python that is promised."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

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


def test_pythons_are_those_promised():
    assert PYTHONS == ["3.11", "3.12", "3.13"]
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"


@pytest.mark.parametrize("python", PYTHONS)
def test_pins_are_in_the_ranges(python):
    pinned = pins(python)
    extras = PROJECT["optional-dependencies"].values()
    for group in [PROJECT["dependencies"], *extras]:
        for requirement in applying(group, python):
            version = pinned.get(requirement.name.lower())
            assert version is None or requirement.specifier.contains(version), requirement


def test_pins_have_wheels_for_the_newest_python():
    # The first versions with wheels for Python 3.13; without one, pip would compile Fortran.
    first = {"numpy": "2.1", "scipy": "1.14.1", "scikit-learn": "1.5.2"}
    pinned = pins("3.13")
    assert all(Version(pinned[name]) >= Version(version) for name, version in first.items())
