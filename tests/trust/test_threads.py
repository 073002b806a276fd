"""Threads share what is public, as in a server: each gets what it would have got alone."""

import importlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from threading import Barrier

import pytest
import torch
from layer_cases import bend, call, make_data
from test_architecture import STAGES
from torch.testing import assert_close
from trust.thread_cases import CASES, EXCUSED, make_input

from jsem_pyg.graph.memory import Memory
from jsem_pyg.nn import AnisotropicDiffusion

NUM_THREADS = 8
INPUTS = [make_input(seed) for seed in range(NUM_THREADS)]


@pytest.fixture(autouse=True)
def _switch_often():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def results(use, shared, each):
    """What comes out, and the gradients of the signal and of what `shared` learns."""
    mine = copy(each)
    mine.x = each.x.clone().requires_grad_()
    out = use(shared, mine)
    out = [out] if torch.is_tensor(out) else list(out)
    leaves = [mine.x, *(shared.parameters() if isinstance(shared, torch.nn.Module) else ())]
    total = sum(value.sin().sum() for value in out if value.requires_grad)
    gradients = (
        torch.autograd.grad(total, leaves, allow_unused=True) if out[0].requires_grad else ()
    )
    return [value.detach() for value in (*out, *gradients) if value is not None]


def assert_as_alone(name, rounds, calls):
    make, use = CASES[name]

    def made():
        torch.manual_seed(0)
        return make()

    expected = [results(use, made(), each) for each in INPUTS]
    barrier = Barrier(NUM_THREADS)

    def work(number, shared):
        barrier.wait()
        for _ in range(calls):
            actual = results(use, shared, INPUTS[number])
            assert_close(actual, expected[number], equal_nan=True)

    with ThreadPoolExecutor(NUM_THREADS) as pool:
        for _ in range(rounds):  # anew, since what is made at the first use is made together
            shared = made()
            list(pool.map(work, range(NUM_THREADS), [shared] * NUM_THREADS))


@pytest.mark.parametrize("name", CASES)
def test_every_call_gives_what_it_gives_alone(name):
    assert_as_alone(name, rounds=2, calls=1)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_many_calls_give_what_they_give_alone(name):
    assert_as_alone(name, rounds=20, calls=10)


def test_every_public_name_has_a_case_or_an_excuse():
    public = set()
    for stage in STAGES:
        module = importlib.import_module(f"jsem_pyg.{stage}")
        public |= {f"{stage}.{name}" for name in module.__all__}
    public = {name for name in public if not name.startswith("datasets.")}  # which are files
    cases = {name.partition(" ")[0] for name in CASES}
    assert cases | set(EXCUSED) == public
    assert not cases & set(EXCUSED)


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

    def work(number):
        for _ in range(20):
            assert_close(call(compiled, graphs[number]), expected[number])

    with ThreadPoolExecutor(NUM_THREADS) as pool:
        list(pool.map(work, range(NUM_THREADS)))


def test_trainings_share_one_global_generator():
    """Each saves its state, draws its own dropout from it, and restores it."""
    make, use = CASES["training.fit_triplets"]
    model, before = make(), torch.random.get_rng_state()
    expected = [use(model, each) for each in INPUTS]
    with ThreadPoolExecutor(NUM_THREADS) as pool:
        assert_close(list(pool.map(use, [model] * NUM_THREADS, INPUTS)), expected)
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
