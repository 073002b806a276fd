"""The work of each process of a distributed run: a module of its own, for new processes."""

import time
from datetime import timedelta

import numpy as np
import pytest
import torch
from laws import random_graph
from layer_cases import Similarity
from processes import join
from torch.nn.parallel import DistributedDataParallel
from torch_geometric.data import Data

from jsem_pyg.diffusion import filters, heat_diffusion
from jsem_pyg.graph import GraphStructure
from jsem_pyg.nn import AnisotropicChebConv, AnisotropicDiffusion, DiffusionClassifier
from jsem_pyg.partition import DistributedGraph, Partition, distribute, sum_gradients
from jsem_pyg.training import fit

CHANNELS = 4
SIZES = {4: torch.float32, 2: torch.float64}  # processes, and in which type they compute


def graph(edge_index, num_nodes, dtype, seed=0, weight=None):
    """Weights and features that are the same in both directions, a signal."""
    structure = GraphStructure(edge_index, num_nodes)
    generator = torch.Generator().manual_seed(seed)
    slots = torch.randn(structure.num_slots, 1, generator=generator, dtype=dtype)
    edge_attr = ((slots + slots[structure.reverse]) / 2)[structure.slot]
    if weight is None:
        weight = edge_attr[:, 0].abs() + 0.1
    x = torch.randn(num_nodes, CHANNELS, generator=generator, dtype=dtype)
    return Data(x=x, edge_index=edge_index, edge_weight=weight.to(dtype), edge_attr=edge_attr)


def even(num_nodes, size, seed=None):
    """Parts of the same size: of neighbouring numbers, or at random."""
    generator = torch.Generator().manual_seed(seed or 0)
    order = torch.arange(num_nodes)
    if seed is not None:
        order = torch.randperm(num_nodes, generator=generator)
    return Partition(order, torch.arange(size + 1) * num_nodes // size)


def random(dtype, size):
    edge_index, _ = random_graph(40, 0.1, num_isolated=3)
    return graph(edge_index, 40, dtype), even(40, size, seed=1)


def weights_of_zero(dtype, size):
    """Some edges are there and conduct nothing; a node has no others."""
    data, partition = random(dtype, size)
    weight = data.edge_weight * (data.edge_weight > 0.5)
    weight[(data.edge_index == 5).any(0)] = 0
    data.edge_weight = weight
    return data, partition


def repeated(dtype, size):
    """Every third edge twice, in both directions."""
    edge_index, _ = random_graph(20, 0.2, num_isolated=1)
    first = edge_index[:, edge_index.sum(0) % 3 == 0]
    return graph(torch.cat([edge_index, first], dim=1), 20, dtype), even(20, size, seed=2)


def repeated_in_one(dtype, size):
    """An edge twice, within the first process: the others have no such edge."""
    edge_index, _ = random_graph(20, 0.3)
    both = (edge_index < 20 // size).all(0).nonzero()[0, 0]
    pair = edge_index[:, both : both + 1]
    data = graph(torch.cat([edge_index, pair, pair.flip(0)], dim=1), 20, dtype)
    return data, even(20, size)


def components(dtype, size):
    """Some within a process, some across, of very different rates."""
    parts = [random_graph(12, 0.4, seed=seed)[0] + 12 * seed for seed in range(4)]
    data = graph(torch.cat(parts, dim=1), 50, dtype)
    data.edge_weight = data.edge_weight * 4.0 ** (data.edge_index[0] // 12)
    return data, even(50, size)


def empty_part(dtype, size):
    """The first and the last process have nothing."""
    data, _ = random(dtype, size)
    inner = torch.arange(size - 1) * 40 // max(size - 2, 1)
    ptr = torch.cat([torch.tensor([0]), inner.clamp(max=40), torch.tensor([40])])
    ptr[-2] = 40 if size > 2 else 0
    return data, Partition(torch.arange(40), ptr)


def no_interior(dtype, size):
    """A ring whose neighbours are never in one process."""
    ring = torch.arange(16)
    edges = torch.stack([ring, (ring + 1) % 16])
    order = torch.cat([torch.arange(at, 16, size) for at in range(size)])
    data = graph(torch.cat([edges, edges.flip(0)], dim=1), 16, dtype)
    return data, Partition(order, torch.arange(size + 1) * 16 // size)


def more_ranks_than_nodes(dtype, size):
    path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    return graph(path, 3, dtype), even(3, size)


def no_edges(dtype, size):
    return graph(torch.empty(2, 0, dtype=torch.int64), 5, dtype), even(5, size)


GRAPHS = {
    each.__name__: each
    for each in (
        random,
        weights_of_zero,
        repeated,
        repeated_in_one,
        components,
        empty_part,
        no_interior,
        more_ranks_than_nodes,
        no_edges,
    )
}

# The graphs of each pair of processes.
OF_PAIR = [list(GRAPHS)[::2], list(GRAPHS)[1::2]]


def times(dtype):
    return {
        "one": torch.tensor(1.3, dtype=dtype),
        "scales": torch.tensor([0.4, 2.0], dtype=dtype),
        "channels": torch.linspace(0.1, 3.0, 2 * CHANNELS, dtype=dtype).reshape(2, CHANNELS),
    }


def functional(normalization, time, backend):
    def use(data, edge_index, dtype):
        t = times(dtype)[time].requires_grad_()
        x, weight = (each.clone().requires_grad_() for each in (data.x, data.edge_weight))
        options = {"normalization": normalization, "backend": backend}
        out = heat_diffusion(x, edge_index, weight, t, **options)
        return out, [x], [weight], [t]

    return use


def of_layer(make, normalization):
    def use(data, edge_index, dtype):
        torch.manual_seed(0)
        layer = make(normalization).to(dtype)
        with torch.no_grad():
            for each in layer.conductance.parameters():
                each.add_(torch.linspace(0.5, 1.5, each.numel(), dtype=dtype).view_as(each))
        x, weight = (each.clone().requires_grad_() for each in (data.x, data.edge_weight))
        out = layer(x, edge_index, weight, data.edge_attr)
        return out, [x], [weight], list(layer.parameters())

    return use


def cheb_conv(normalization):
    return AnisotropicChebConv(CHANNELS, 3, t=[0.5, 1.5], normalization=normalization)


LAYERS = {
    "sigmoid": lambda normalization: AnisotropicDiffusion(t=2.0, normalization=normalization),
    "perceptron": lambda normalization: AnisotropicDiffusion(
        t=[1.0, 2.0], conductance="mlp", normalization=normalization
    ),
    "sees nodes": lambda normalization: AnisotropicDiffusion(
        t=1.5, conductance=Similarity(), normalization=normalization
    ),
    "linear map": cheb_conv,
    "page rank": lambda normalization: AnisotropicDiffusion(
        filter=filters.PersonalizedPageRank(0.2), normalization=normalization, tol=1e-12
    ),
}

# name: a use of a graph; every graph is used in these ways
CASES = {
    f"{backend}, {normalization}, {time}": functional(normalization, time, backend)
    for backend, normalization, time in [
        ("auto", "sym", "scales"),
        ("auto", "rw", "channels"),
        ("auto", None, "one"),
        ("auto", None, "channels"),
        ("torch", "rw", "one"),
        ("torch", None, "scales"),
    ]
} | {
    f"{name}, {normalization}": of_layer(LAYERS[name], normalization)
    for name, normalization in [
        ("sigmoid", None),
        ("perceptron", "rw"),
        ("sees nodes", "sym"),
        ("linear map", "sym"),
        ("linear map", None),
        ("page rank", None),
    ]
}


def cases_of(size, graph_name):
    """All cases on some graphs of a pair; elsewhere those that differ most."""
    if size == 2 and graph_name in (
        "random",
        "repeated",
        "repeated_in_one",
        "components",
        "empty_part",
    ):
        return list(CASES)
    few = ["auto, None, channels", "sees nodes, sym"]
    if graph_name in ("random", "empty_part", "more_ranks_than_nodes"):
        few += ["auto, sym, scales", "torch, rw, one"]
    return few


def loss_of(out, nodes, num_nodes):
    """A sum over nodes, each with weights of its own."""
    weight = torch.linspace(-1, 1, num_nodes * out.size(-1), dtype=out.dtype)
    return (out.sin() * weight.reshape(num_nodes, -1)[nodes]).sum()


def gradients(leaves):
    return [torch.zeros_like(each) if each.grad is None else each.grad for each in leaves]


def expect(use, data, dtype):
    """What one process finds."""
    out, *leaves = use(data, data.edge_index, dtype)
    loss_of(out, torch.arange(data.num_nodes), data.num_nodes).backward()
    return (out.detach(), *map(gradients, leaves))


def run_cases(size, dtype, names, group=None):
    """All cases on some graphs, among the processes of a group."""
    found = {}
    for graph_name in names:
        make = GRAPHS[graph_name]
        data, partition = make(dtype, size)
        part = distribute(data, partition, group=group)
        for name in cases_of(size, graph_name):
            out, *leaves = CASES[name](part.data, part, dtype)
            loss_of(out, part.nodes, data.num_nodes).backward()
            sum_gradients(leaves[2], group=group)
            found[graph_name, name] = (part.nodes, part.edge, out.detach(), *map(gradients, leaves))
    return found


def run(rank, size, folder):
    """All cases among four processes in float32; pairs share the graphs in float64."""
    join(rank, size, folder)
    halves = [torch.distributed.new_group([0, 1]), torch.distributed.new_group([2, 3])]
    found = {
        4: run_cases(4, torch.float32, GRAPHS),
        2: run_cases(2, torch.float64, OF_PAIR[rank // 2], halves[rank // 2]),
        "classifier": train_classifier(distribute(*empty_part(torch.float64, 4))),
        "data parallel": train_data_parallel(distribute_random(4)),
        "read": read_rows(rank, folder),
        "columns": diffuse_columns(),
        "fit": fit_with_a_break(f"{folder}/run.safetensors"),
        "fit of pairs": fit_of_pair(rank // 2, halves[rank // 2]),
        "error": lose(3, rank),
    }
    torch.save(found, f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


def distribute_random(size):
    data, partition = random(torch.float64, size)
    return distribute(data, partition)


def train_classifier(part):
    """Means of all nodes are taken in training, and kept for evaluation."""
    data = part.data if isinstance(part, DistributedGraph) else part
    torch.manual_seed(0)
    model = DiffusionClassifier(CHANNELS, 3, t=1.0).double()
    nodes = part.nodes if data is not part else torch.arange(data.num_nodes)
    loss_of(model(data.x, data.edge_index, data.edge_weight), nodes, 40).backward()
    sum_gradients(model.parameters())
    with torch.no_grad():
        p = model.eval()(data.x, data.edge_index, data.edge_weight)
    return p, [each.grad for each in model.parameters()], list(model.buffers())


def train_data_parallel(part):
    """`DistributedDataParallel` takes the mean of the gradients, so the loss is multiplied."""
    layer = AnisotropicDiffusion(t=2.0).double()
    model = DistributedDataParallel(layer)
    out = model(part.data.x, part, part.data.edge_weight, part.data.edge_attr)
    (loss_of(out, part.nodes, 40) * part.ranks.size).backward()
    return [each.grad for each in layer.parameters()]


def read_rows(rank, folder):
    """Features in a file, of which each process reads its rows."""
    data, partition = random(torch.float64, 4)
    if rank == 0:
        np.save(f"{folder}/x.npy", data.x.numpy())
    torch.distributed.barrier()
    data.x = np.load(f"{folder}/x.npy", mmap_mode="r")
    part = distribute(data, partition)
    return part.nodes, part.data.x, heat_diffusion(part.data.x, part, part.data.edge_weight)


def diffuse_columns():
    """Each process has the whole graph and some columns, and shares of the other gradients."""
    data, rank = random(torch.float64, 4)[0], torch.distributed.get_rank()
    weight, t = data.edge_weight.clone().requires_grad_(), torch.tensor(1.5).requires_grad_()
    out = heat_diffusion(data.x[:, rank::4], data.edge_index, weight, t)
    out.sin().sum().backward()
    sum_gradients([weight, t])
    return rank, out.detach(), weight.grad, t.grad


FIT = {"lr": 0.1, "batch_size": 50, "seed": 3, "progress": False}


def data_in_order(dtype=torch.float64):
    """Places are nodes, so that the same triplets are drawn as in one process."""
    return random(dtype, 4)[0], even(40, 4)


def fit_with_a_break(checkpoint):
    """Trained through, and again with an end and a new start in between."""
    data, partition = data_in_order()
    weights = []
    for breaks in ([6], [4, 6]):
        for epochs in breaks:
            part = distribute(data, partition)
            torch.manual_seed(part.ranks.rank)  # all get the weights of the first
            model = AnisotropicDiffusion(t=2.0, conductance="mlp").double()
            keep = {"checkpoint": checkpoint, "resume": len(breaks) > 1}
            if breaks == [6]:
                keep = {}
            result = fit(model, part.data, epochs=epochs, **keep, **FIT)
        weights.append([each.detach() for each in model.parameters()])
        weights[-1].append(torch.tensor([row.loss for row in result.history]).double())
    with pytest.raises(NotImplementedError, match="whole graph for self-training"):
        fit(DiffusionClassifier(CHANNELS, 3).double(), part.data)
    return weights


def fit_of_pair(seed, group):
    """Two pairs of processes train at the same time, each a model of its own."""
    data, partition = data_in_order()
    part = distribute(data, partition, group=group)
    model = model_of(seed)
    fit(model, part.data, epochs=3, **FIT | {"seed": seed})
    return [each.detach() for each in model.parameters()]


def model_of(seed):
    torch.manual_seed(seed)
    return AnisotropicDiffusion(t=2.0, conductance="mlp").double()


def lose(lost, rank):
    """The error of the others, and its time, where a process does not come."""
    group = torch.distributed.new_group(timeout=timedelta(seconds=1))
    data, partition = random(torch.float64, 4)
    part = distribute(data, partition, group=group)
    part.ranks.total(torch.zeros(1))  # begin together
    started = time.monotonic()
    if rank == lost:
        time.sleep(4)
        return None
    with pytest.raises(RuntimeError) as error:
        heat_diffusion(part.data.x, part, part.data.edge_weight)
    return str(error.value), time.monotonic() - started
