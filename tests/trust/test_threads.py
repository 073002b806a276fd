"""Threads share what is public, as in a server: each gets what it would have got alone.

Every good call (`good_calls.py`) is made by four threads at once, each with data of its own. Of a
method they share the object. `SHARED` adds objects that are used in more ways than one.
"""

import inspect
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from threading import Barrier

import numpy as np
import pytest
import torch
from layer_cases import CHANNELS, NUM_NODES, bend, call, make_data
from torch.testing import assert_close
from torch_geometric.data import Data
from training.training_cases import SmoothingStub
from trust import good_calls
from trust.good_calls import GOOD, good_call
from trust.test_layouts import numbers

from jsem_pyg.curvature import forman_curvature
from jsem_pyg.diffusion import heat_diffusion, hypergraph_diffusion
from jsem_pyg.diffusion.registered_op import heat_diffusion_op
from jsem_pyg.estimators import DiffusionClusterer, DiffusionLabelSpreading, HeatDiffusion
from jsem_pyg.graph import GraphStructure, HypergraphStructure, NeighborIndex
from jsem_pyg.graph.memory import Memory
from jsem_pyg.nn import AnisotropicChebConv, AnisotropicDiffusion
from jsem_pyg.training import fit
from jsem_pyg.transforms import FormanCurvature

pytestmark = pytest.mark.ci

NUM_THREADS = 4

# Calls that change the object, so that threads cannot share it.
NOT_SHARED = r"\S+\.(fit|set\w*)"
CALLS = [
    key
    for key, make in GOOD.items()
    if not inspect.isclass(make()[0]) and not re.fullmatch(NOT_SHARED, key)
]


@pytest.fixture(autouse=True)
def _switch_often():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def at_once(work):
    """What each of the threads gets; all begin together."""
    barrier = Barrier(NUM_THREADS)

    def begin(number):
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(NUM_THREADS) as pool:
        return list(pool.map(begin, range(NUM_THREADS)))


def results(function, given):
    """What comes out, and the gradients of the signal and of what a shared layer learns."""
    given = dict(given)
    x = given.get("x")
    if isinstance(x, torch.Tensor) and x.is_floating_point():
        given["x"] = x.clone().requires_grad_()
    out = function(**given)
    owner = getattr(function, "__self__", None)
    learned = owner.parameters() if isinstance(owner, torch.nn.Module) else []
    learned = [each for each in learned if each.requires_grad]
    if isinstance(out, torch.Tensor) and out.requires_grad:
        leaves = [each for each in (given.get("x"), *learned) if each is not None]
        found = torch.autograd.grad(out.sin().sum(), leaves, allow_unused=True)
        return [*numbers(out), *(each.double() for each in found if each is not None)]
    return numbers(out)


def assert_as_alone(key, rounds, calls):
    given = [good_call(key, seed)[1] for seed in range(NUM_THREADS)]

    def fresh(number):
        """Arguments for one call, which may change models that it is given to train."""
        return good_call(key, number)[1]

    def made():
        torch.manual_seed(0)
        return good_call(key)[0]

    expected = [results(made(), fresh(number)) for number in range(NUM_THREADS)]
    for _ in range(rounds):  # anew, since what is made at the first use is made together
        function, ready = made(), [[fresh(n) for _ in range(calls)] for n in range(len(given))]
        found = at_once(lambda n: [results(function, each) for each in ready[n]])  # noqa: B023
        for number, outcomes in enumerate(found):
            for actual in outcomes:
                assert_close(actual, expected[number], equal_nan=True)


def test_a_race_is_seen(monkeypatch):
    class Racing:
        def call(self, x):
            self.x = x
            time.sleep(0.01)
            return self.x

    x = [torch.full((2,), float(number)) for number in range(NUM_THREADS)]
    monkeypatch.setitem(GOOD, "fake", lambda: (Racing().call, {"x": x[good_calls._seed]}))
    with pytest.raises(AssertionError):
        assert_as_alone("fake", rounds=2, calls=1)


@pytest.mark.parametrize("key", CALLS)
def test_every_call_gives_what_it_gives_alone(key):
    assert_as_alone(key, rounds=2, calls=1)


@pytest.mark.slow
@pytest.mark.parametrize("key", CALLS)
def test_many_calls_give_what_they_give_alone(key):
    assert_as_alone(key, rounds=20, calls=10)


def on_graph(structure, data):
    out = heat_diffusion(data.x, structure, t=2.0)
    return [out, structure.reverse, *structure.edges, forman_curvature(structure)]


def on_hypergraph(structure, data):
    methods = ("dense", "csr", "incidence", "auto")
    return [hypergraph_diffusion(data.x, structure, t=2.0, method=each) for each in methods]


def registered(_, data):
    x, weight, (source, target) = data.x, data.edge_weight, data.edge_index
    ways = (None, 1e-6, "sym", "auto", 0.0, True)
    return list(
        heat_diffusion_op(x, torch.tensor([2.0]), weight, None, None, target, source, *ways)[:1]
    )


def searched(index, data):
    return [*index.query(data.x), *index.extend(data.x)]


def by_jax(graph, data):
    door = pytest.importorskip("jsem_pyg.jax")
    graph = door.prepare_graph(data.edge_index, NUM_NODES) if graph is None else graph
    return [torch.from_numpy(np.array(door.heat_diffusion(data.x.numpy(), graph, t=2.0)))]


def jax_graph():
    return pytest.importorskip("jsem_pyg.jax").prepare_graph(FIRST.edge_index, NUM_NODES)


def curved(transform, data):
    return [transform(Data(edge_index=data.edge_index, edge_weight=data.edge_weight)).edge_attr]


def layer_call(layer, data):
    x = data.x.clone().requires_grad_()
    out = call(layer, data, x)
    return [out, *torch.autograd.grad(out.sin().sum(), [x, *layer.parameters()])]


def probabilities(estimator, data):
    return [torch.from_numpy(estimator.predict_proba(data.x.numpy()))]


FIRST = make_data(0)
LABELS = torch.arange(NUM_NODES).remainder(3)
SHARED = {  # how to make it, and what comes of one use of it
    "narrow layer": (lambda: bend(AnisotropicChebConv(CHANNELS, 1, t=[1.0, 2.0])), layer_call),
    "wide layer": (lambda: bend(AnisotropicChebConv(CHANNELS, 9)), layer_call),
    "layer of two times": (lambda: bend(AnisotropicDiffusion(t=[1.0, 2.0])), layer_call),
    "watched layer": (lambda: bend(AnisotropicDiffusion(degree=2, fuse=False)), layer_call),
    "graph": (lambda: GraphStructure(FIRST.edge_index, NUM_NODES), on_graph),
    "hypergraph": (
        lambda: HypergraphStructure(FIRST.edge_index.remainder(5), NUM_NODES),
        on_hypergraph,
    ),
    "registered op": (lambda: None, registered),
    "approximate index": (lambda: NeighborIndex(FIRST.x, 3, index="hnsw"), searched),
    "fitted curvature": (lambda: FormanCurvature().fit(FIRST), curved),
    "JAX": (lambda: None, by_jax),
    "graph in JAX": (jax_graph, by_jax),
    "HeatDiffusion": (
        lambda: HeatDiffusion(3, t=1.0).fit(FIRST.x),
        lambda shared, data: [torch.from_numpy(shared.transform(data.x.numpy()))],
    ),
    "DiffusionClusterer": (
        lambda: DiffusionClusterer(2, n_neighbors=3, t=1.0, random_state=0).fit(FIRST.x),
        probabilities,
    ),
    "DiffusionLabelSpreading": (
        lambda: DiffusionLabelSpreading(3, t=1.0, random_state=0).fit(FIRST.x, LABELS),
        probabilities,
    ),
}


@pytest.mark.parametrize("name", SHARED)
def test_a_shared_object_gives_what_it_gives_alone(name):
    make, use = SHARED[name]
    inputs = [make_data(seed) for seed in range(NUM_THREADS)]

    def made():
        torch.manual_seed(0)
        return make()

    expected = [use(made(), copy(each)) for each in inputs]
    for _ in range(2):
        shared = made()
        found = at_once(lambda number: use(shared, copy(inputs[number])))  # noqa: B023
        assert_close(found, expected, equal_nan=True)


FIRST_CALL = """
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
import torch
from jsem_pyg.curvature import forman_curvature
from jsem_pyg.diffusion import heat_diffusion
sys.setswitchinterval(1e-5)
edges = torch.tensor([[0, 1, 1, 2, 2, 0], [1, 0, 2, 1, 0, 2]])
barrier = Barrier(8)

def work(number):
    x = torch.full((3, 2), float(number)).requires_grad_()
    barrier.wait()
    out = heat_diffusion(x, edges, t=1.0 + number)
    return [out.detach(), *torch.autograd.grad(out.sin().sum(), x), forman_curvature(edges)]

with ThreadPoolExecutor(8) as pool:
    first = list(pool.map(work, range(8)))
barrier = Barrier(1)
for number in range(8):
    for one, other in zip(first[number], work(number), strict=True):
        assert torch.equal(one, other)
"""


def run_first_call(**environment):
    subprocess.run([sys.executable, "-c", FIRST_CALL], env=os.environ | environment, check=True)


@pytest.mark.slow
def test_the_first_call_of_a_process():
    run_first_call()


@pytest.mark.slow
def test_the_first_call_on_a_machine(tmp_path):
    run_first_call(NUMBA_CACHE_DIR=str(tmp_path))


@pytest.mark.slow
def test_compiled_code():
    layer = bend(AnisotropicDiffusion(t=[1.0, 2.0]))
    graphs = [make_data(seed) for seed in range(NUM_THREADS)]
    expected = [call(layer, data) for data in graphs]
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=True)
    for _ in range(20):
        assert_close(at_once(lambda number: call(compiled, graphs[number])), expected)


def test_trainings_share_one_global_generator():
    """Each saves its state, draws its own dropout from it, and restores it."""

    def train(number):
        data = make_data(number)
        model = fit(SmoothingStub(CHANNELS, dropout=0.5), data, epochs=2, progress=False).model
        return list(model.state_dict().values())

    before = torch.random.get_rng_state()
    expected = [train(number) for number in range(NUM_THREADS)]
    assert_close(at_once(train), expected)
    assert torch.equal(torch.random.get_rng_state(), before)


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
