"""Pages that are the repository's own files, so that nothing is said in two places.

README.md is cut at its headings: "## What to know" becomes `_repository/what-to-know.md`, which
pages include. Its links to files become links to the pages that show these. Notebooks are copied to
where Sphinx looks for them. All of it is written before Sphinx reads, and not committed.
"""

import re
from pathlib import Path
from typing import Any

# Files that links of the README point to -> the pages that show them.
PAGES = {
    "#results": "/benchmarks/index.md",
    "CONTRIBUTING.md": "/contributing.md",
    "docs/index.md": "/index.md",
    "examples/results/denoising.md": "/benchmarks/denoising.md",
    "examples/results/distributed.md": "/benchmarks/distributed.md",
    "examples/results/drop_in.md": "/benchmarks/drop_in.md",
    "examples/results/heterophilous.md": "/benchmarks/heterophilous.md",
    "examples/results/ordering.md": "/benchmarks/ordering.md",
    "examples/study/README.md": "/benchmarks/study.md",
    "examples/study/results/ari.png": "/../examples/study/results/ari.png",
    "examples/study/results/calibration.md": "/benchmarks/calibration.md",
    "examples/study/results/num_classes.png": "/../examples/study/results/num_classes.png",
}


def sections(text: str) -> dict[str, str]:
    """What stands under each heading of the second level, by the heading's slug; the head is ""."""
    heads = re.split(r"^## (.+)\n", _without_code(text), flags=re.MULTILINE)[1::2]
    parts, rest = {}, text
    for name, head in zip(["", *map(slug, heads)], heads, strict=False):
        parts[name], rest = rest.split(f"\n## {head}\n", 1)
    parts[slug(heads[-1])] = rest
    parts[""] = parts[""].split("\n", 1)[1]  # without the title
    return parts


def _without_code(text: str) -> str:
    """The text without code blocks, in which a comment may look like a heading."""
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def slug(heading: str) -> str:
    """A heading as a file name: "In fifteen lines" -> "in-fifteen-lines"."""
    return re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")


def with_links(text: str, root: Path) -> str:
    """The text with links to pages of the site in place of those to files.

    Raises:
        KeyError: for a link to a file that has no page.
    """

    def page(match: re.Match[str]) -> str:
        target = match[1]
        if target.startswith("notebooks/") and (root / target).exists():
            return f"](/gallery/{target})"
        return f"]({PAGES[target]})"

    return re.sub(r"\]\((?!https?:)([^)\s]+)\)", page, text)


def write_if_new(path: Path, content: bytes) -> None:
    """Write a file unless it has this content, for which Sphinx would read it again."""
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def write_pages(app: Any) -> None:
    """Write all of them into the source folder of the site."""
    here = Path(app.srcdir)
    root = here.parent
    readme = (root / "README.md").read_text(encoding="utf-8")
    for name, text in sections(readme).items():
        path = here / "_repository" / f"{name or 'head'}.md"
        write_if_new(path, with_links(text, root).encode())
    for notebook in sorted((root / "notebooks").glob("*.ipynb")):
        write_if_new(here / "gallery" / "notebooks" / notebook.name, notebook.read_bytes())


def setup(app: Any) -> dict[str, bool]:
    """Connect to Sphinx."""
    app.connect("builder-inited", write_pages, priority=1)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
