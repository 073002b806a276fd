"""The API reference: its pages are made of `__all__`, and names lead to them.

Type hints and docstrings name the file where a thing is defined, `jsem_pyg.graph.structure`; its
page is that of the stage which exports it, `jsem_pyg.graph`.
"""

import inspect
import re
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import jsem_pyg

ROOT = Path(jsem_pyg.__file__).parents[1]
# Doors that a user names in an import, since each needs a package of its own.
BY_NAME = ("jax", "command")
# What is neither a class nor a function, with its text.
DATA = {
    "main": "The command itself, a `click.Group`: ``jsem_pyg.command.main(['info'])`` runs it from "
    "Python, and ``click.testing.CliRunner().invoke(main, ['info'])`` in a test."
}
# Modules of a stage that are imported by name, at the end of its page.
MODULES = {"diffusion": ["filters"]}


def names_of(stage: str) -> list[str]:
    """The names that a stage exports, in the order of its `__all__`."""
    module = import_module(f"jsem_pyg.{stage}")
    own = [
        name
        for name, each in vars(module).items()
        if inspect.isfunction(each) and each.__module__ == module.__name__ and name[0] != "_"
    ]
    return list(getattr(module, "__all__", own))


def reference_page(stage: str) -> str:
    """The page of a stage: its docstring, and a table of its own names."""
    full = f"jsem_pyg.{stage}"
    quiet = "   :no-members:\n   :no-inherited-members:\n"
    parts = [f"{full}\n{'=' * len(full)}\n", f".. automodule:: {full}\n{quiet}"]
    parts.append(f"The guide: :doc:`/guide/{stage}`.\n")
    homes = {name: public_home(stage, name) for name in names_of(stage)}
    own = [name for name, home in homes.items() if home == f"{full}.{name}" and name not in DATA]
    if own:
        table = "\n".join(f"   {name}" for name in own)
        parts.append(f".. autosummary::\n   :toctree: .\n\n{table}\n")
    parts += [f".. data:: {name}\n\n   {DATA[name]}\n" for name in homes if name in DATA]
    lent = [f":class:`~{home}`" for name, home in homes.items() if home != f"{full}.{name}"]
    if lent:
        parts.append(f"From other stages: {', '.join(lent)}.\n")
    for module in MODULES.get(stage, []):
        if (ROOT / "jsem_pyg" / stage / f"{module}.py").exists():
            parts.append(f".. automodule:: {full}.{module}\n{quiet}")
        elif (ROOT / "jsem_pyg" / stage / module).exists():
            parts.append(f".. automodule:: {full}.{module}\n   :members:\n")
    return "\n".join(parts)


def public_home(stage: str, name: str) -> str:
    """The public name of what a stage exports: that of the stage which defines it."""
    value = getattr(import_module(f"jsem_pyg.{stage}"), name)
    defined = f"{getattr(value, '__module__', None) or f'jsem_pyg.{stage}'}.{name}"
    if defined.startswith(f"jsem_pyg.{stage}."):
        return f"jsem_pyg.{stage}.{name}"
    return public_names().get(defined, f"jsem_pyg.{stage}.{name}")


def write_reference(app: Any, config: Any) -> None:
    """Write the pages that `api/index.rst` lists, before Sphinx looks for pages."""
    folder = Path(app.srcdir) / "api" / "generated"
    folder.mkdir(exist_ok=True)
    index = (folder.parent / "index.rst").read_text()
    for stage in re.findall(r"^   generated/(\w+)$", index, re.MULTILINE):
        path, text = folder / f"{stage}.rst", reference_page(stage)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


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
    """The public name of a target such as "jsem_pyg.neighbors.build.knn_graph"."""
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
    app.connect("config-inited", write_reference)
    app.connect("missing-reference", resolve)
    app.connect("autodoc-skip-member", skip_others)
    app.connect("autodoc-process-docstring", keep_colons, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
