"""What a process of a data-parallel run does: a module of its own, for a new process to import."""

import torch
from hypergraph_cases import case
from layer_cases import CHANNELS, make_data
from processes import join
from torch.nn.parallel import DistributedDataParallel

from jsem_pyg.nn import AnisotropicChebConv, AnisotropicDiffusion, HypergraphChebConv

WORLD = 2


def on_graph(layer, rank, with_attr):
    data = make_data(seed=rank)
    arguments = (data.x, data.edge_index, data.edge_weight)
    return (*arguments, data.edge_attr) if with_attr else arguments


def on_hypergraph(layer, rank, with_attr):
    structure, weight = case("random", dtype=torch.float32, seed=rank)
    index = torch.stack([structure.node, structure.hyperedge])
    generator = torch.Generator().manual_seed(rank)
    return torch.randn(structure.num_nodes, CHANNELS, generator=generator), index, weight


# name: what makes a layer, its arguments, and whether edges have features
CASES = {
    "diffusion": (lambda: AnisotropicDiffusion(t=[1.0, 2.0]), on_graph, True),
    "diffusion alone": (lambda: AnisotropicDiffusion(t=[1.0, 2.0]), on_graph, False),
    "perceptron alone": (lambda: AnisotropicDiffusion(conductance="mlp"), on_graph, False),
    "fixed time alone": (lambda: AnisotropicDiffusion(learn_t=False), on_graph, False),
    "watched alone": (lambda: AnisotropicDiffusion(fuse=False), on_graph, False),
    "narrowing": (lambda: AnisotropicChebConv(CHANNELS, 1, t=[1.0, 2.0]), on_graph, True),
    "narrowing alone": (lambda: AnisotropicChebConv(CHANNELS, 1, t=[1.0, 2.0]), on_graph, False),
    "widening alone": (lambda: AnisotropicChebConv(CHANNELS, 9), on_graph, False),
    "hypergraph": (lambda: HypergraphChebConv(CHANNELS, 2, num_hyperedges=5), on_hypergraph, False),
}


def train(layer, model, ranks, make_arguments, with_attr, num_steps=3):
    """Steps of gradient descent on the mean loss of some ranks: the parameters, in one vector."""
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.05)
    for _ in range(num_steps):
        optimizer.zero_grad()
        losses = [
            model(*make_arguments(layer, rank, with_attr)).sin().square().sum() for rank in ranks
        ]
        (sum(losses) / len(losses)).backward()
        optimizer.step()
    return torch.cat([each.detach().flatten() for each in layer.parameters()])


def run(rank, folder):
    """All cases in one process of two; writes what it learned."""
    join(rank, WORLD, folder)
    learned = {name: learn(rank, *case) for name, case in CASES.items()}
    torch.save(learned, f"{folder}/{rank}.pt")
    torch.distributed.destroy_process_group()


def learn(rank, make, make_arguments, with_attr):
    """One case. Its model ends before the group does: torch may wait forever in the other order."""
    torch.manual_seed(0)
    layer = make()
    model = DistributedDataParallel(layer, find_unused_parameters=False)
    return train(layer, model, [rank], make_arguments, with_attr)
