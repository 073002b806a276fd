"""What a single process can see of the distribution of a graph: parts, files, plans, errors."""

import json
import math
import shutil

import numpy as np
import pytest
import torch
from distributed_cases import GRAPHS, even, random
from torch_geometric.data import Data

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.graph import GraphStructure
from jsem_pyg.nn import AnisotropicDiffusion
from jsem_pyg.partition import (
    Partition,
    Speed,
    distribute,
    load_part,
    measure_speed,
    plan,
    recursive_partition,
    save_parts,
    sum_gradients,
)
from jsem_pyg.partition.distributed.graph import DistributedGraph
from jsem_pyg.partition.distributed.plan import choose_strategy, count_parts
from jsem_pyg.partition.distributed.ranks import Ranks
from jsem_pyg.partition.distributed.record import Cutter
from jsem_pyg.testing import random_graph
from jsem_pyg.training import fit

SPEED = Speed(product=1e-9, gradient=1e-9, row=1e-9)


def whole():
    data, _ = random(torch.float64, 1)
    data.y, data.note = torch.arange(40), "kept"
    return data


class Quiet(Ranks):
    """One of several processes, which is asked for nothing that others would have to answer."""

    def __init__(self, rank, size):
        self.rank, self.size, self.group = rank, size, None


def parts_of(data, partition):
    cutter = Cutter(GraphStructure(data.edge_index, data.num_nodes), partition)
    size = partition.num_parts
    return [DistributedGraph(each, Quiet(each.rank, size), Data()) for each in cutter.cut_all()]


def test_a_single_process_has_all_rows():
    data = whole()
    part = distribute(data)
    assert part.data.edge_index is part
    assert part.data.note == "kept"
    assert torch.equal(part.data.y, part.nodes)
    y = heat_diffusion(part.data.x, part, part.data.edge_weight)
    expected = heat_diffusion(data.x, data.edge_index, data.edge_weight)
    torch.testing.assert_close(y, expected[part.nodes])


@pytest.mark.parametrize("graph_name", GRAPHS)
@pytest.mark.parametrize("size", [2, 4])
def test_all_parts_together_are_the_graph(graph_name, size):
    data, partition = GRAPHS[graph_name](torch.float64, size)
    parts = parts_of(data, partition)
    edges = torch.cat([each.edge for each in parts])
    assert torch.equal(edges.sort()[0], torch.arange(data.edge_index.size(1)))
    one_by_one = Cutter(GraphStructure(data.edge_index, data.num_nodes), partition)
    for each in parts:
        again = one_by_one.cut(each.ranks.rank)
        for name, value in each.record._asdict().items():
            other = getattr(again, name)
            assert torch.equal(value, other) if isinstance(value, torch.Tensor) else value == other
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
    with pytest.raises(ValueError, match="'backend' to be one of 'auto', 'torch', 'reference'"):
        heat_diffusion(x, part, backend="torch_sparse")
    with pytest.raises(NotImplementedError, match="where somebody watches"):
        AnisotropicDiffusion(0, fuse=False).double()(x, part)
    with pytest.raises(NotImplementedError, match="'sampler' to be 'graph'"):
        fit(AnisotropicDiffusion(0).double(), part.data, sampler="labels")
    share = distribute(whole(), strategy="columns")
    with pytest.raises(NotImplementedError, match="processes share the rows"):
        fit(AnisotropicDiffusion(0).double(), share.data)
    with pytest.raises(ValueError, match="Expected 'data' to have 'x', whose columns"):
        distribute(Data(edge_index=whole().edge_index, num_nodes=40), strategy="columns")
    layer = AnisotropicDiffusion(0, conductance=SeesNodes()).double()
    with pytest.raises(ValueError, match="all channels of 'x'"):
        layer(share.data.x, share)


class SeesNodes(torch.nn.Module):
    def forward(self, edge_attr, x_i, x_j):
        return torch.sigmoid((x_i * x_j).sum(-1))


def test_a_part_moves_with_its_data():
    part = distribute(whole())
    moved = part.to("cpu")
    assert moved.data.edge_index is moved
    assert part.data.edge_index is part
    assert torch.equal(moved.row, part.row)
    torch.testing.assert_close(
        heat_diffusion(moved.data.x, moved), heat_diffusion(part.data.x, part)
    )


def test_a_time_learns_also_where_only_it_does():
    t = torch.tensor(1.0, requires_grad=True)
    part = distribute(whole())
    heat_diffusion(part.data.x, part, t=t).sin().sum().backward()
    before = t.grad.clone()
    sum_gradients(t)
    assert torch.equal(t.grad, before)


def test_parts_are_written_whole_or_not_at_all(tmp_path):
    data, partition = whole(), even(40, 1)
    with pytest.raises(FileNotFoundError, match=r"without 'parts.json'"):
        load_part(tmp_path)
    save_parts(tmp_path, data, partition)
    part = load_part(tmp_path)
    assert part.data.note == "kept"
    assert torch.equal(part.data.edge_attr, data.edge_attr)
    data.other = object()
    with pytest.raises(TypeError, match=r"'data.data.other' to be a tensor"):
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
    with pytest.raises(ValueError, match="of the same writing"):
        load_part(tmp_path)
    first.write_bytes(first.read_bytes()[:-1])
    with pytest.raises(ValueError, match="damaged"):
        load_part(tmp_path)
    index = tmp_path / "parts.json"
    index.write_text(json.dumps(json.loads(index.read_text()) | {"version": 2}))
    with pytest.raises(ValueError, match="to be of version 1"):
        load_part(tmp_path)
    index.write_text("{")
    with pytest.raises(ValueError, match="a file that is damaged"):
        load_part(tmp_path)


def test_features_are_read_from_a_file(tmp_path):
    data = whole()
    np.save(tmp_path / "x.npy", data.x.numpy())
    save_parts(tmp_path, Data(edge_index=data.edge_index, num_nodes=40), even(40, 1, seed=3))
    part = load_part(tmp_path, tmp_path / "x.npy")
    assert torch.equal(part.data.x, data.x[part.nodes])
    for wrong in (np.zeros((39, 2)), np.zeros(40), np.zeros((40, 2), int)):
        with pytest.raises(
            ValueError, match=r"'x' to hold floating-point numbers of shape \[40, D"
        ):
            load_part(tmp_path, wrong)
    with pytest.raises(TypeError, match="'x' to be a .npy file"):
        load_part(tmp_path, data.x)


@pytest.mark.parametrize("graph_name", GRAPHS)
def test_a_plan_counts_what_parts_have(graph_name):
    data, partition = GRAPHS[graph_name](torch.float64, 4)
    counts = count_parts(GraphStructure(data.edge_index, data.num_nodes), partition)
    found = plan(data.edge_index, partition, 3, bandwidth=1e9, speed=SPEED)
    parts = parts_of(data, partition)
    slots = [each.row.numel() for each in parts]
    assert counts.rows.tolist() == [each.num_nodes for each in parts]
    assert counts.edges.tolist() == slots
    assert counts.crossing.tolist() == [each.crossing.num_slots for each in parts]
    assert found.halo.tolist() == [each.halo.size for each in parts]
    assert found.sent.tolist() == [12 * sum(each.halo.send) for each in parts]
    assert found.peers.tolist() == [sum(map(bool, each.halo.receive)) for each in parts]
    assert found.to_pandas().halo.tolist() == found.halo.tolist()


def test_a_plan_of_sizes_alone_is_that_of_random_parts():
    edge_index, _ = random_graph(1500, 0.01)
    expected = plan((1500, edge_index.size(1)), 8, 16, 1e9, speed=SPEED)
    found = plan(edge_index, even(1500, 8, seed=0), 16, 1e9, speed=SPEED)
    assert float(found.halo.double().mean()) == pytest.approx(float(expected.halo[0]), rel=0.03)
    assert found.bytes_per_term == pytest.approx(expected.bytes_per_term, rel=0.03)
    assert found.seconds_per_epoch == pytest.approx(expected.seconds_per_epoch, rel=0.15)


def test_a_plan_follows_its_numbers():
    def of(**changed):
        given = {"parts": 4, "channels": 16, "bandwidth": 1e9, "halo_share": 0.5, "speed": SPEED}
        return plan((10_000, 160_000), **{**given, **changed})

    assert of(bandwidth=1e3).seconds_per_epoch > 100 * of().seconds_per_epoch
    assert of(latency=1.0).seconds_per_epoch > 30
    assert of().seconds_per_epoch < of(overlap=False).seconds_per_epoch
    travels = of(bandwidth=1e3)  # so long that all else is over before
    apart = of(bandwidth=1e3, overlap=False).seconds - travels.seconds_of_exchange
    assert (apart > travels.seconds - travels.seconds_of_exchange).all()
    assert of(terms=60).seconds_per_epoch == pytest.approx(2 * of().seconds_per_epoch)
    assert of(dtype=torch.float64).bytes_per_term == 2 * of().bytes_per_term == 2 * 10_000 // 2 * 64
    assert of(memory=1e9).fits
    assert not of(memory=1e6).fits
    for name, value in {"channels": 0, "bandwidth": 0.0, "latency": -1.0, "terms": 0}.items():
        with pytest.raises(ValueError, match=f"'{name}'"):
            of(**{name: value})
    with pytest.raises(ValueError, match="num_nodes, num_edges"):
        plan((1, 2, 3), 2, 4, 1e9, speed=SPEED)
    with pytest.raises(TypeError, match="'parts' to be a number"):
        of(parts=even(10, 2))
    with pytest.raises(ValueError, match="'halo_share' to be None"):
        plan(whole().edge_index, 2, 4, 1e9, speed=SPEED, halo_share=0.1)
    with pytest.raises(ValueError, match="of the graph's 40 nodes"):
        plan(GraphStructure(whole().edge_index, 40), even(39, 2), 4, 1e9, speed=SPEED)


def test_speed_is_measured():
    speed = measure_speed(4, 500)
    assert min(speed.product, speed.gradient, speed.row) > 0


def test_the_strategy_follows_the_bytes():
    edge_index, _ = random_graph(200, 0.1)
    structure, partition = GraphStructure(edge_index, 200), even(200, 4, seed=1)
    few, many = (choose_strategy(structure, partition, d, torch.float32, None) for d in (1, 1000))
    assert (few, many) == ("rows", "columns")
    assert choose_strategy(structure, partition, 1000, torch.float32, 1e5) == "rows"
    assert choose_strategy(structure, partition, 4000, torch.float32, 1e9) == "columns"
    data = Data(x=torch.ones(200, 1), edge_index=edge_index)
    assert isinstance(
        distribute(data, Partition(*one_part(200)), strategy="auto"), DistributedGraph
    )


def one_part(num_nodes):
    return torch.arange(num_nodes), torch.tensor([0, num_nodes])


def test_a_partition_is_made_where_none_is_given():
    data = whole()
    part = distribute(data)
    assert torch.equal(part.nodes, recursive_partition(data.edge_index, 1, num_nodes=40).order)
