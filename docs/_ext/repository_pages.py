"""Files of the repository that the site shows as pages: notebooks, results, how to contribute.

They are copied into `docs/_repository`, each under its own path, before Sphinx reads; the copies
are not committed. Pages link to the files themselves, as a reader of a clone needs it; on the site
such a link leads to the copy.
"""

import os.path
import re
from pathlib import Path
from typing import Any

COPIES = "_repository"
SHOWN = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "tests/README.md",
    "examples/README.md",
    "notebooks/*.ipynb",
    "examples/results/*.md",
    "examples/results/*.png",
    "examples/study/README.md",
    "examples/study/results/*.md",
    "examples/study/results/*.png",
)
LINK = re.compile(r"(?<=\]\()(?!https?:|mailto:|#)([^)#\s]+)(?=[)#])")


def shown_files(root: Path) -> list[Path]:
    """All files that the site shows beside those of docs/."""
    return sorted(path for pattern in SHOWN for path in root.glob(pattern))


def copy_files(app: Any) -> None:
    """Copy the files, except where the copy is the same, for which Sphinx would read it again."""
    docs = Path(app.srcdir)
    for path in shown_files(docs.parent):
        copy = docs / COPIES / path.relative_to(docs.parent)
        if not copy.exists() or copy.read_bytes() != path.read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())


def on_site(target: str, page: Path, root: Path) -> str:
    """Where a link of a page leads on the site.

    Args:
        target: The link, relative to the page.
        page: The page, relative to the repository, such as docs/guide/nn.md.
        root: The repository.

    Returns:
        The target below docs/, with a leading "/", which for Sphinx is the folder of all pages.

    Raises:
        FileNotFoundError: for a link to a file that does not exist.
    """
    path = root / os.path.normpath(page.parent / target)
    if not path.exists():
        raise FileNotFoundError(f"{page} links to {target}, which does not exist")
    if path.is_relative_to(root / "docs"):
        return f"/{path.relative_to(root / 'docs').as_posix()}"
    place = COPIES if path in shown_files(root) else ".."
    return f"/{place}/{path.relative_to(root).as_posix()}"


def rewrite_links(app: Any, docname: str, source: list[str]) -> None:
    """Lead the links of a Markdown page to pages of the site."""
    name = f"{docname}.md"
    docs = Path(app.srcdir)
    if not (docs / name).exists():
        return
    inside = f"{COPIES}/"
    page = Path(name.removeprefix(inside) if name.startswith(inside) else f"docs/{name}")
    source[0] = LINK.sub(lambda match: on_site(match[1], page, docs.parent), source[0])


def setup(app: Any) -> dict[str, bool]:
    """Connect to Sphinx."""
    app.connect("builder-inited", copy_files, priority=1)
    app.connect("source-read", rewrite_links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
