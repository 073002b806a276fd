"""The arguments and defaults of all public calls are those of a list: none changes by accident.

After a change on purpose, `python tests/test_signatures.py` writes the list anew; CHANGELOG.md has
to tell of what users notice.
"""

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import jsem_pyg

LIST = Path(__file__).with_name("signatures.txt")
OPTIONAL = {"anndata": "anndata", "jax": "jax.numpy"}  # stages that need a package of their own
STAGES = [*jsem_pyg.__all__, "diffusion.filters", *OPTIONAL]


def signatures(stage: str) -> list[str]:
    """A line for each call: stage, name, and arguments without their types."""
    module = importlib.import_module(f"jsem_pyg.{stage}")
    names = getattr(module, "__all__", None) or [
        name
        for name, each in vars(module).items()
        if inspect.isfunction(each) and each.__module__ == module.__name__ and name[0] != "_"
    ]
    return [line for name in sorted(names) for line in _lines(stage, name, getattr(module, name))]


def _lines(stage: str, name: str, value: Any) -> Iterator[str]:
    if not callable(value) or not (value.__module__ or "").startswith("jsem_pyg"):
        return
    yield f"{stage} {name}{_arguments(value)}"
    for method, function in vars(value).items() if inspect.isclass(value) else ():
        # PyG adds functions of another module when a layer is made.
        own = inspect.isfunction(function) and function.__module__ == value.__module__
        if own and method[0] != "_":
            yield f"{stage} {name}.{method}{_arguments(function)}"


def _arguments(call: Any) -> str:
    signature = inspect.signature(call)
    bare = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=signature.empty))


@pytest.mark.parametrize("stage", STAGES)
def test_arguments_and_defaults_are_as_listed(stage):
    if stage in OPTIONAL:
        pytest.importorskip(OPTIONAL[stage])
    listed = LIST.read_text().splitlines()
    assert signatures(stage) == [line for line in listed if line.startswith(f"{stage} ")]


if __name__ == "__main__":
    LIST.write_text("\n".join(line for stage in STAGES for line in signatures(stage)) + "\n")
