"""Distribution of a graph as a single process sees it: parts, files, errors."""

import math

import numpy as np
import pytest
import torch
from distributed_cases import even, random
from torch_geometric.data import Data

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.graph import GraphStructure
from jsem_pyg.nn import AnisotropicDiffusion
from jsem_pyg.partition import distribute
from jsem_pyg.partition.processes.rows import cut_rows
from jsem_pyg.training import fit


def whole():
    data, _ = random(torch.float64, 1)
    data.y, data.note = torch.arange(40), "kept"
    return data


def test_a_single_process_has_all_rows():
    data = whole()
    part = distribute(data)
    assert part.data.edge_index is part
    assert part.data.note == "kept"
    assert torch.equal(part.data.y, part.nodes)
    y = heat_diffusion(part.data.x, part, part.data.edge_weight)
    expected = heat_diffusion(data.x, data.edge_index, data.edge_weight)
    torch.testing.assert_close(y, expected[part.nodes])


def test_more_blocks_than_processes():
    data = whole()
    structure = GraphStructure(data.edge_index, 40)
    assert cut_rows(structure, even(40, 6), 0, 3).begin.tolist() == even(40, 6).ptr[::2].tolist()
    with pytest.raises(ValueError, match="to have 4 parts, one for every process, or a multiple"):
        cut_rows(structure, even(40, 6), 0, 4)
    with pytest.raises(ValueError, match="of the graph's 40 nodes"):
        cut_rows(structure, even(39, 2), 0, 2)


def test_processes_without_a_group_are_refused(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(RuntimeError, match="Expected a process group"):
        distribute(whole())


def test_a_directed_graph_is_refused():
    with pytest.raises(ValueError, match="undirected"):
        distribute(Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2))
    with pytest.raises(ValueError, match="to have 'edge_index'"):
        distribute(Data(x=torch.eye(2)))


def test_weights_are_checked():
    data = whole()
    part = distribute(data)
    weight = part.data.edge_weight.clone()
    weight[0] += 1
    with pytest.raises(ValueError, match="'edge_weight' to be the same in both directions"):
        heat_diffusion(part.data.x, part, weight)
    with pytest.raises(ValueError, match="'edge_weight' to be finite"):
        heat_diffusion(part.data.x, part, weight * math.nan)
    with pytest.raises(ValueError, match="to have 40 nodes"):
        heat_diffusion(part.data.x[1:], part)


def test_what_needs_the_whole_graph_is_refused():
    part = distribute(whole())
    x = part.data.x
    with pytest.raises(NotImplementedError, match="where messages are observed"):
        AnisotropicDiffusion(0, fuse=False).double()(x, part)
    with pytest.raises(NotImplementedError, match="'sampler' to be 'graph'"):
        fit(AnisotropicDiffusion(0).double(), part.data, sampler="labels")
    with pytest.raises(ValueError, match="'backend' to be one of 'auto', 'torch'"):
        heat_diffusion(x, part, backend="numba")


def test_files_of_other_features_are_refused(tmp_path):
    data = whole()
    for wrong in (np.zeros((3, 2)), np.zeros(40), np.zeros((40, 2), int)):
        np.save(tmp_path / "x.npy", wrong)
        data.x = np.load(tmp_path / "x.npy", mmap_mode="r")
        with pytest.raises(ValueError, match=r"'data.x' to hold|node indices in"):
            distribute(data)
