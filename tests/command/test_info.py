import importlib
import re
import sys
from importlib.metadata import version

import pytest
import torch
from command.command_cases import run

from jsem_pyg import __main__ as module


def test_versions_and_backends_are_told():
    result = run("info")
    assert result.exit_code == 0
    python, packages, machine, *backends = result.output.split("\n\n")
    assert python.startswith("Python 3.")
    assert "torch " in packages
    assert machine.startswith("CPU ")
    assert len(backends) == 1 + torch.cuda.is_available()
    assert re.search(rf"torch +{re.escape(version('torch'))}", result.output)
    families = re.split(r"\n  (?=\w)", backends[0])[1:]
    assert len(families) > 1
    for each in families:  # what is taken is one that runs
        assert len(re.findall(r"^  \* (\w+) +runs$", each, re.MULTILINE)) == 1, each
    assert re.search("triton +does not run: triton", result.output) or torch.cuda.is_available()


def test_without_click_the_error_names_the_extra(monkeypatch):
    for name in [each for each in sys.modules if each.startswith("jsem_pyg.command")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "click", None)
    with pytest.raises(ImportError, match=r"`jsem-pyg` needs the package 'click'.*\[command\]"):
        importlib.import_module("jsem_pyg.command")


def test_a_module_is_the_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["jsem_pyg/__main__.py", "--help"])
    with pytest.raises(SystemExit) as ended:
        module.main()
    assert not ended.value.code
    assert "Usage: python -m jsem_pyg" in capsys.readouterr().out
