"""Ways to split a block of nodes in two, behind one signature: :data:`.block.Splitter`."""

from importlib import import_module
from importlib.util import find_spec

from ..._checks import check_choice
from .block import Array, Block, Splitter, cut

__all__ = ["METHODS", "Array", "Block", "Splitter", "choose_method", "cut", "find_splitter"]

# What each is called, and the package that it needs beyond those of this one.
_PACKAGES = {"metis": "pymetis", "bandwidth": None, "hilbert": None}
METHODS = ("auto", *_PACKAGES)


def choose_method(name: str) -> str:
    """The splitter that `name` means where it may be "auto".

    Raises:
        ValueError: if there is no such splitter, or its package is not installed.
    """
    check_choice("method", name, METHODS)
    if name == "auto":
        return next(each for each in _PACKAGES if _can_run(each))
    if not _can_run(name):
        raise ValueError(
            f"Expected a 'method' that can run (got {name!r}: {_PACKAGES[name]} is not installed). "
            'To fix this, pip install "jsem_pyg[partition]", or pass method="bandwidth".'
        )
    return name


def find_splitter(name: str) -> Splitter:
    """The splitter of this name."""
    split: Splitter = import_module(f"{__name__}.{name}").split
    return split


def _can_run(name: str) -> bool:
    package = _PACKAGES[name]
    return package is None or find_spec(package) is not None
