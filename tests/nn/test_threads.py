"""Threads share a layer, as in a server: each gets what it would have got alone."""

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch
from layer_cases import CHANNELS, bend, call, make_data

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.graph import GraphStructure
from jsem_pyg.graph.memory import Memory
from jsem_pyg.nn import AnisotropicChebConv, AnisotropicDiffusion, HypergraphDiffusion

NUM_THREADS, NUM_CALLS = 8, 200


@pytest.fixture(autouse=True)
def _switch_often():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def hypergraph_call(layer, data):
    # A hyperedge for every node: itself and its neighbours' numbers, as far as there are five.
    return layer(data.x, data.edge_index.remainder(torch.tensor([[15], [5]])))


def structure_call(structure, data):
    return heat_diffusion(data.x, structure, t=2.0)


def graph_call(_, data):
    return heat_diffusion(data.x, data.edge_index, data.edge_weight, t=2.0)


SHARED = {
    "diffusion": (lambda: bend(AnisotropicDiffusion(t=[1.0, 2.0])), call),
    "watched": (lambda: bend(AnisotropicDiffusion(degree=2, fuse=False)), call),
    "narrowing": (lambda: bend(AnisotropicChebConv(CHANNELS, 1, t=[1.0, 2.0])), call),
    "widening": (lambda: bend(AnisotropicChebConv(CHANNELS, 9)), call),
    "hypergraph": (lambda: HypergraphDiffusion(t=2.0), hypergraph_call),
    "structure": (lambda: GraphStructure(make_data().edge_index, 15), structure_call),
    "function": (lambda: None, graph_call),
}


@pytest.mark.parametrize("name", SHARED)
def test_every_call_gives_what_it_gives_alone(name):
    make, use = SHARED[name]
    shared, alone = make(), make()
    if isinstance(shared, torch.nn.Module):
        alone.load_state_dict(shared.state_dict())
    graphs = [make_data(seed) for seed in range(NUM_THREADS)]
    with torch.no_grad():
        expected = [use(alone, data) for data in graphs]
    barrier = Barrier(NUM_THREADS)

    def work(number):
        barrier.wait()
        with torch.no_grad():
            return sum(
                not torch.equal(use(shared, graphs[number]), expected[number])
                for _ in range(NUM_CALLS)
            )

    with ThreadPoolExecutor(NUM_THREADS) as pool:
        assert list(pool.map(work, range(NUM_THREADS))) == [0] * NUM_THREADS


def test_a_memory_that_is_swapped_while_it_is_read():
    memory, graphs = Memory(), [torch.zeros(2), torch.ones(2)]

    class Meddler:
        """Compared in the middle of a look-up, it lets the memory learn something else."""

        def __eq__(self, other):
            memory.recall((graphs[1],), lambda: "another")
            return True

        __hash__ = None

    memory.recall((graphs[0],), lambda: "this", Meddler())
    assert memory.recall((graphs[0],), lambda: "this", Meddler()) == "this"
    assert memory.recall((graphs[1],), lambda: "made anew") == "another"


def test_training_in_threads():
    layer = bend(AnisotropicDiffusion(t=[1.0, 2.0]))
    graphs = [make_data(seed) for seed in range(NUM_THREADS)]

    def gradients(number):
        total = call(layer, graphs[number]).sin().sum()
        return torch.autograd.grad(total, list(layer.parameters()))

    expected = [gradients(number) for number in range(NUM_THREADS)]

    def work(number):
        for _ in range(30):
            torch.testing.assert_close(gradients(number), expected[number])

    with ThreadPoolExecutor(NUM_THREADS) as pool:
        list(pool.map(work, range(NUM_THREADS)))
