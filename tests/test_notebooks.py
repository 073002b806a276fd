"""The notebooks run, on data that need no file, and are committed as they ran."""

import json
import os
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))
LONG = ("01", "03", "07", "08")  # of which each takes more than four seconds


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request):
    return request.param


def read(path):
    return nbformat.read(path, as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_there_are_notebooks():
    assert NOTEBOOKS


@pytest.fixture
def no_files(monkeypatch, tmp_path):
    """Small settings, and data that are drawn."""
    monkeypatch.delenv("JSEM_DATA", raising=False)
    monkeypatch.setenv("JSEM_QUICK", "1")
    for name in ("TMPDIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    examples = NOTEBOOKS[0].parent.parent / "examples"  # which a notebook imports from
    monkeypatch.syspath_prepend(examples)
    monkeypatch.setenv("PYTHONPATH", f"{examples}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, id=path.stem, marks=getattr(pytest.mark, "slow" if long else "ci"))
        for path in NOTEBOOKS
        for long in [path.stem.startswith(LONG)]
    ],
)
def test_runs_on_data_that_need_no_file(path, no_files, monkeypatch, tmp_path):
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    committed = path.read_bytes()
    if b"import scanpy" in committed:
        pytest.importorskip("scanpy", reason="needs the extra [test], whose scanpy is missing here")
    notebook = read(path)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=240, resources=resources).execute()  # raises what a cell does
    outputs = [output for cell in code_cells(notebook) for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert path.read_bytes() == committed


def test_is_committed_as_it_ran_from_top_to_bottom(path):
    cells = code_cells(read(path))
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert outputs
    for output in outputs:
        assert output.output_type != "error"
        assert output.get("name") != "stderr"


def test_shows_no_path_of_the_machine_that_ran_it(path):
    for cell in code_cells(read(path)):
        for output in cell.outputs:
            shown = {k: v for k, v in output.get("data", {}).items() if k != "image/png"}
            text = json.dumps([shown, output.get("text", "")])
            assert not re.search(r"(?<![\w<.])/\w+/\w", text), text
