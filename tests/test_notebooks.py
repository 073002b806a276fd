"""The notebooks run, on data that need no file, and are committed as they ran."""

import json
import logging
import os
import re
from pathlib import Path

import nbformat
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from nbclient import NotebookClient
from traitlets.config import Config

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))


LONG = ("01", "03", "07", "08")  # run in a kernel every night


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


@pytest.mark.ci
def test_runs_on_data_that_need_no_file(path, no_files, monkeypatch):
    """In this process, which has imported everything; figures are drawn, but not painted."""
    if path.stem.startswith(LONG):
        pytest.skip("takes more than four seconds, and runs in a kernel every night")
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("agg")
    drawn = []

    def show():
        for figure in map(plt.figure, plt.get_fignums()):
            figure.set_layout_engine("none")  # which draws everything twice
            figure.draw_without_rendering()
            drawn.append(figure)
        plt.close("all")

    monkeypatch.setattr(plt, "show", show)
    threads, package = torch.get_num_threads(), logging.getLogger("jsem_pyg")
    handlers, level = logging.getLogger().handlers[:], package.level
    history = Config(HistoryManager={"enabled": False})
    shell = InteractiveShell.instance(config=history)
    try:
        with capture_output() as captured, plt.rc_context():
            for cell in code_cells(read(path)):
                shell.run_cell(cell.source).raise_error()
            show()
    finally:
        InteractiveShell.clear_instance()
        torch.set_num_threads(threads)
        logging.getLogger().handlers[:] = handlers
        package.setLevel(level)
        logging.disable(logging.NOTSET)
    shown = [image for output in captured.outputs for image in output.data if image == "image/png"]
    assert drawn or shown


@pytest.mark.slow  # each in a kernel of its own
def test_runs_in_a_kernel(path, no_files, monkeypatch, tmp_path):
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    committed = path.read_bytes()
    if b"import scanpy" in committed:
        pytest.importorskip("scanpy", reason="needs the extra [test], whose scanpy is missing here")
    notebook = read(path)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=240, resources=resources).execute()  # raises what a cell does
    kinds = {
        kind
        for cell in code_cells(notebook)
        for output in cell.outputs
        for kind in output.get("data", {})
    }
    assert "image/png" in kinds
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
