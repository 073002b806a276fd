"""The documentation has a place for everything; that it builds, `bash .ci/docs` tells."""

import importlib
import inspect
import json
import re
from pathlib import Path

import pytest
import yaml
from test_architecture import PARTS, STAGES

import jsem_pyg

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [
    path
    for path in sorted([*DOCS.rglob("*.md"), *DOCS.rglob("*.rst")])
    if not {"_build", "_repository", "_templates", "generated"} & set(path.parts)
]
MARKDOWN = [
    *(page for page in PAGES if page.suffix == ".md"),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "tests/README.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]


def public_names(part):
    """The names that a stage exports, with the stage that each comes from."""
    module = importlib.import_module(f"jsem_pyg.{part}")
    functions = [each for each in vars(module).values() if inspect.isfunction(each)]
    own = [each.__name__ for each in functions if each.__module__ == module.__name__]
    for name in getattr(module, "__all__", [name for name in own if name[0] != "_"]):
        yield name, getattr(getattr(module, name), "__module__", None) or module.__name__


@pytest.mark.parametrize("part", PARTS)
def test_the_reference_is_made_of_the_public_names(part, monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "_ext")
    page = importlib.import_module("public_names").reference_page(part)
    for name, defined in public_names(part):
        home = defined.split(".")[1]
        if home in PARTS and home != part:  # lent by another stage, whose page has it
            assert f"~jsem_pyg.{home}.{name}`" in page, name
        else:
            assert f"\n   {name}\n" in page or f".. data:: {name}\n" in page, name


def shown_code():
    """All code that is run: of the README, the pages, the examples and the notebooks."""
    fenced = r"^```(?:python|\{(?:testcode|doctest|testsetup)\})\n(.*?)^```"
    for page in (page for page in MARKDOWN if page.suffix == ".md"):
        yield from re.findall(fenced, page.read_text(), re.MULTILINE | re.DOTALL)
    for path in (ROOT / "examples").rglob("*.py"):
        yield path.read_text()
    for path in (ROOT / "notebooks").glob("*.ipynb"):
        cells = json.loads(path.read_text())["cells"]
        yield from ("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def test_every_public_name_is_shown():
    words = set(re.findall(r"\w+", "\n".join(shown_code())))
    names = {f"{part}.{name}" for part in PARTS for name, _ in public_names(part)}
    assert {name for name in names if name.split(".")[1] not in words} == set()


def test_every_stage_is_in_the_guide_and_in_the_reference():
    guide, api = (DOCS / "guide/index.md").read_text(), (DOCS / "api/index.rst").read_text()
    for stage in PARTS:
        assert f"\n{stage}\n" in guide
        assert f"\n   generated/{stage}\n" in api
        page = (DOCS / "guide" / f"{stage}.md").read_text()
        assert "```{testcode}" in page, stage
        assert "## Questions" in page, stage


def test_the_parts_of_the_package_are_the_stages():
    by_name = {"anndata", "jax", "command"}  # imported by those who have what they need
    assert set(jsem_pyg.__all__) == {*PARTS} - by_name


@pytest.mark.parametrize("page", MARKDOWN, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page):
    for target in re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)[)#]", page.read_text()):
        assert (page.parent / target).exists(), target


def test_links_of_a_clone_lead_to_pages_of_the_site(monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "_ext")
    on_site = importlib.import_module("repository_pages").on_site
    assert on_site("docs/guide/nn.md", Path("README.md"), ROOT) == "/guide/nn.md"
    assert on_site("../../README.md", Path("docs/guide/nn.md"), ROOT) == "/_repository/README.md"
    assert on_site("../CITATION.cff", Path("docs/citing.md"), ROOT) == "/../CITATION.cff"
    with pytest.raises(FileNotFoundError, match=r"nowhere\.md"):
        on_site("nowhere.md", Path("README.md"), ROOT)


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/inside.md", "tests/README.md"])
def test_files_that_pages_name_exist(page):
    folders = ("jsem_pyg", "tests", "docs", "examples", ".ci")
    for name in set(re.findall(r"`([\w./]+(?:\.py|/))`", (ROOT / page).read_text())):
        found = (ROOT / name).exists() or any(any((ROOT / each).rglob(name)) for each in folders)
        assert found or "my_" in name, name


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/inside.md"])
def test_names_are_in_the_files_that_pages_give_for_them(page):
    text = re.sub(r"\s+", " ", (ROOT / page).read_text())
    pairs = re.findall(r"`([\w.()]+)` \(`([\w/]+\.py)`", text)  # `name` (`file.py`)
    assert len(pairs) > 5
    for name, file in pairs:
        paths = (ROOT / "jsem_pyg").rglob(Path(file).name)
        found = [path.read_text() for path in paths if str(path).endswith(f"/{file}")]
        missing = [word for word in re.findall(r"\w+", name) if word not in "".join(found)]
        assert not missing, f"{name} in {file}"


def test_pages_have_the_order_of_the_stages():
    inside = re.findall(r"^\d+\. `(\w+)`: ", (DOCS / "inside.md").read_text(), re.MULTILINE)
    readme = re.findall(r"^\| \[`(\w+)`\]", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert inside == readme == STAGES


def test_pages_own_their_text():
    """Nothing is cut out of other files: a page has no holes in a clone."""
    for page in PAGES:
        assert not re.search(r"^```\{(literal)?include\}", page.read_text(), re.MULTILINE), page


def test_the_citation_is_complete():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors", "license"} <= set(citation)
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == jsem_pyg.__version__
    assert f"version = {{{jsem_pyg.__version__}}}" in (DOCS / "citing.md").read_text()
    assert all("name" in each or "family-names" in each for each in citation["authors"])
