"""Distribution of a graph as a single process sees it: parts, files, errors."""

import math
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from distributed_cases import GRAPHS, even, random
from torch_geometric.data import Data

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.graph import GraphStructure
from jsem_pyg.nn import AnisotropicDiffusion
from jsem_pyg.partition import (
    DistributedGraph,
    distribute,
    load_part,
    save_parts,
)
from jsem_pyg.partition.processes import saved_parts
from jsem_pyg.partition.processes.ranks import Ranks
from jsem_pyg.partition.processes.rows import Cutter
from jsem_pyg.training import fit


def whole():
    data, _ = random(torch.float64, 1)
    data.y, data.note = torch.arange(40), "kept"
    return data


class Quiet(Ranks):
    """One of several processes, for calls that need no answer of the others."""

    def __init__(self, rank, size):
        self.rank, self.size, self.group = rank, size, None

    def largest(self, values):
        return values


def parts_of(data, partition):
    cutter = Cutter(GraphStructure(data.edge_index, data.num_nodes), partition)
    size = partition.num_parts
    return [DistributedGraph(cutter.cut(at), Quiet(at, size), Data()) for at in range(size)]


def test_a_single_process_has_all_rows():
    data = whole()
    part = distribute(data)
    assert part.data.edge_index is part
    assert part.data.note == "kept"
    assert torch.equal(part.data.y, part.nodes)
    y = heat_diffusion(part.data.x, part, part.data.edge_weight)
    expected = heat_diffusion(data.x, data.edge_index, data.edge_weight)
    torch.testing.assert_close(y, expected[part.nodes])


def test_features_of_edges_that_are_not_finite_are_refused():
    part = distribute(whole())
    part.data.edge_attr[3] = torch.nan
    with pytest.raises(ValueError, match="'edge_attr' to be finite"):
        part.check_attr(part.data.edge_attr)


@pytest.mark.parametrize("graph_name", GRAPHS)
@pytest.mark.parametrize("size", [2, 4])
def test_all_parts_together_are_the_graph(graph_name, size):
    data, partition = GRAPHS[graph_name](torch.float64, size)
    parts = parts_of(data, partition)
    edges = torch.cat([each.edge for each in parts])
    assert torch.equal(edges.sort()[0], torch.arange(data.edge_index.size(1)))
    for each in parts:
        # What one sends is what the other receives.
        for other in parts:
            there, here = other.ranks.rank, each.ranks.rank
            assert each.halo.send[there] == other.halo.receive[here]
        target, source = each.edges
        halo = torch.cat([each.nodes, partition.order[halo_places(each)]])
        got = torch.stack([halo[source], halo[target]])
        assert torch.equal(got, data.edge_index[:, each.edge])


def halo_places(part):
    low = int(part.record.begin[part.ranks.rank])
    col = part.record.col
    return torch.unique(col[(col < low) | (col >= low + part.num_nodes)])


def test_more_blocks_than_processes():
    data = whole()
    cutter = Cutter(GraphStructure(data.edge_index, 40), even(40, 6), 3)
    assert cutter.begin.tolist() == even(40, 6).ptr[::2].tolist()
    with pytest.raises(ValueError, match="to have 4 parts, one for every process, or a multiple"):
        Cutter(GraphStructure(data.edge_index, 40), even(40, 6), 4)
    with pytest.raises(ValueError, match="of the graph's 40 nodes"):
        Cutter(GraphStructure(data.edge_index, 40), even(39, 2))


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
    with pytest.raises(ValueError, match="'backend' to be one of 'auto', 'torch', 'reference'"):
        heat_diffusion(x, part, backend="numba")


def test_parts_are_written_whole_or_not_at_all(tmp_path):
    data, partition = whole(), even(40, 1)
    with pytest.raises(FileNotFoundError, match=r"without 'parts.json'"):
        load_part(tmp_path)
    save_parts(tmp_path, data, partition)
    part = load_part(tmp_path)
    assert part.data.note == "kept"
    assert torch.equal(part.data.edge_attr, data.edge_attr)
    data.other = object()
    with pytest.raises(TypeError, match=r"'data.data.other' to be"):
        save_parts(tmp_path, data, partition)
    with pytest.raises(FileNotFoundError):  # which of the parts are new, nobody knows
        load_part(tmp_path)


def test_parts_that_do_not_fit_are_refused(tmp_path):
    data = whole()
    save_parts(tmp_path, data, even(40, 2))
    with pytest.raises(ValueError, match="as many processes as there are parts in .*, 2 "):
        load_part(tmp_path)
    save_parts(tmp_path, data, even(40, 1))
    first = next(tmp_path.glob("part-*-of-00001*"))
    shutil.copy(first, tmp_path / "kept")
    save_parts(tmp_path, data, even(40, 1))
    shutil.copy(tmp_path / "kept", first)
    with pytest.raises(ValueError, match="written together"):
        load_part(tmp_path)
    first.write_bytes(first.read_bytes()[:-1])
    with pytest.raises(ValueError, match="damaged"):
        load_part(tmp_path)
    index = tmp_path / "parts.json"
    index.write_text("{")
    with pytest.raises(ValueError, match="a file that is damaged"):
        load_part(tmp_path)


def test_a_part_under_the_name_of_another_is_refused(tmp_path, monkeypatch):
    save_parts(tmp_path, whole(), even(40, 2))
    first, second = sorted(tmp_path.glob("part-*"))
    shutil.copy(second, first)
    monkeypatch.setattr(saved_parts, "Ranks", lambda group: SimpleNamespace(rank=0, size=2))
    with pytest.raises(ValueError, match="the part of rank 0, .* of another rank"):
        load_part(tmp_path)


def test_features_are_read_from_a_file(tmp_path):
    data = whole()
    np.save(tmp_path / "x.npy", data.x.numpy())
    save_parts(tmp_path, Data(edge_index=data.edge_index, num_nodes=40), even(40, 1, seed=3))
    part = load_part(tmp_path, tmp_path / "x.npy")
    assert torch.equal(part.data.x, data.x[part.nodes])
    np.save(tmp_path / "x.npy", data.x.numpy().astype(">f8"))  # in another order of bytes
    assert torch.equal(load_part(tmp_path, tmp_path / "x.npy").data.x, part.data.x)
    for wrong in (np.zeros((39, 2)), np.zeros(40), np.zeros((40, 2), int)):
        with pytest.raises(
            ValueError, match=r"'x' to hold floating-point numbers of shape \[40, D"
        ):
            load_part(tmp_path, wrong)
    with pytest.raises(TypeError, match="'x' to be a .npy file"):
        load_part(tmp_path, data.x)
