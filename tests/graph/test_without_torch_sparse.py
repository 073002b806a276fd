"""A torch-sparse that is empty or broken is missing, and nothing else is."""

import os
import subprocess
import sys

import pytest

RUN = """
import torch
from torch_geometric.data import Data
from jsem_pyg.nn import AnisotropicChebConv
from jsem_pyg.transforms import FaissKNNGraph, LocalityOrder

data = LocalityOrder()(FaissKNNGraph(3)(Data(x=torch.rand(8, 5))))
graph = data.edge_index, data.edge_weight
AnisotropicChebConv(5, 2, edge_dim=0)(data.x, *graph).sum().backward()
AnisotropicChebConv(5, 2, edge_dim=0, backend="torch_sparse")(data.x, *graph)
"""


@pytest.mark.parametrize(
    "content", ["", pytest.param("raise OSError('undefined symbol')", marks=pytest.mark.slow)]
)
def test_it_is_named_where_it_is_asked_for(content, tmp_path):
    for name in ("torch_sparse", "torch_scatter"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(content)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    result = subprocess.run(
        [sys.executable, "-c", RUN],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert "'torch_sparse': torch-sparse cannot be imported" in result.stderr
    assert "ValueError: Expected a 'backend' that can run on 'cpu'" in result.stderr
    assert result.stderr.count("Traceback") == 1
