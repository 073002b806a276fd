"""What autodoc needs to know of this package: which names are public, and where their page is.

Type hints and docstrings name the file where a thing is defined, `jsem_pyg.graph.structure`; its
page is that of the stage which exports it, `jsem_pyg.graph`.
"""

import inspect
from functools import cache
from importlib import import_module
from typing import Any

import jsem_pyg

# Doors that a user names in an import, since each needs a package of its own.
BY_NAME = ("jax", "command")


@cache
def public_names() -> dict[str, str]:
    """jsem_pyg.graph.structure.GraphStructure -> jsem_pyg.graph.GraphStructure, for all names.

    A name that two stages export has its page in that which defines it.
    """
    found: dict[str, str] = {}
    for stage in (*jsem_pyg.__all__, *BY_NAME):
        module = import_module(f"jsem_pyg.{stage}")
        for name in getattr(module, "__all__", ()):
            defined = f"{getattr(getattr(module, name), '__module__', module.__name__)}.{name}"
            if defined.startswith(f"jsem_pyg.{stage}.") or defined not in found:
                found[defined] = f"jsem_pyg.{stage}.{name}"
    return found


def page_of(target: str) -> str | None:
    """The public name of a target such as "jsem_pyg.graph.build.knn_graph" or "build.knn_graph"."""
    names = public_names()
    ends = (public for name, public in names.items() if name.endswith(f".{target}"))
    return names.get(target) or next(ends, None)


def _import(path: str) -> Any:
    """The module or thing at a path of this package; None if there is none."""
    module, _, name = path.rpartition(".")
    for where in (path, module):
        try:
            found = import_module(where)
        except ImportError:
            continue
        return found if where == path else getattr(found, name, None)
    return None


def resolve(app: Any, env: Any, node: Any, contnode: Any) -> Any:
    """Find the page of a reference that Sphinx misses; what is private is shown without a link."""
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"]
    public = page_of(target)
    if public is not None:
        domain = env.get_domain("py")
        args = env, node["refdoc"], app.builder, node["reftype"], public, node, contnode
        return domain.resolve_xref(*args)
    is_private = target.startswith("jsem_pyg.") and _import(target) is not None
    return contnode if is_private else None


def skip_others(
    app: Any, what: str, name: str, thing: Any, skip: bool, options: Any
) -> bool | None:
    """Leave what PyG, torch, scikit-learn and Python document to them."""
    thing = thing.fget if isinstance(thing, property) else inspect.unwrap(thing)
    owner = getattr(thing, "__objclass__", None)  # of methods of built-in types
    module = getattr(thing, "__module__", None) or getattr(owner, "__module__", None)
    is_ours = module is None or module.split(".")[0] == "jsem_pyg"
    return None if is_ours else True


def keep_colons(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Keep Napoleon from taking what stands before a colon for the type of an attribute."""
    if what in ("attribute", "property", "data"):
        lines[:0] = ["..", ""]  # an empty comment


def setup(app: Any) -> dict[str, bool]:
    """Connect to Sphinx; colons before Napoleon, whose priority is 500."""
    app.connect("missing-reference", resolve)
    app.connect("autodoc-skip-member", skip_others)
    app.connect("autodoc-process-docstring", keep_colons, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
