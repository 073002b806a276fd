"""CUDA graphs without CUDA: captured calls are recorded, and run again for other numbers.

test_triton.py says in what process this runs: the kernels are Triton's, in its interpreter.
"""

import copy
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch
from laws import random_graph
from torch.utils._python_dispatch import TorchDispatchMode

from jsem_pyg.graph import GraphStructure
from jsem_pyg.kernels import replay
from jsem_pyg.kernels.chebyshev import triton_gpu
from jsem_pyg.kernels.fused import SWITCHES
from jsem_pyg.operators import laplacian_operator

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="pretends to have CUDA")


class Recorder(TorchDispatchMode):
    """Writes down operations of torch, which run meanwhile."""

    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **kwargs or {})

        def again():
            found = func(*args, **kwargs or {})
            if isinstance(out, torch.Tensor) and found is not out and func not in ALLOCATIONS:
                out.copy_(found)

        self.calls.append(again)
        return out


ALLOCATIONS = (torch.ops.aten.empty.memory_format, torch.ops.aten.empty_like.default)
ALLOCATIONS += (torch.ops.aten.new_empty.default,)


class FakeCuda:
    """As much of `torch.cuda` as `replay` uses."""

    def __init__(self, monkeypatch):
        self.monkeypatch, self.captures, self.replays = monkeypatch, 0, 0
        self.free, self.is_capturing, self.stream = 2**30, False, 0

    def CUDAGraph(self):
        def run_again():
            self.replays += 1
            for call in graph.calls:
                call()

        graph = SimpleNamespace(calls=[], replay=run_again)
        return graph

    @contextmanager
    def graph(self, graph, capture_error_mode):
        from triton.runtime import interpreter

        assert capture_error_mode == "thread_local"
        self.captures += 1
        run = interpreter.InterpretedFunction.run

        def recorded(kernel, *args, **kwargs):
            graph.calls.append(lambda: run(kernel, *args, **kwargs))

        with self.monkeypatch.context() as patch, Recorder(graph.calls):
            patch.setattr(interpreter.InterpretedFunction, "run", recorded)
            yield

    def is_current_stream_capturing(self):
        return self.is_capturing

    def mem_get_info(self, device):
        return self.free, self.free

    def current_stream(self, device):
        return SimpleNamespace(cuda_stream=self.stream)


@pytest.fixture
def cuda(monkeypatch):
    fake = FakeCuda(monkeypatch)
    monkeypatch.setattr(replay, "cuda", fake)
    monkeypatch.setattr(replay, "_DEVICE", "cpu")
    monkeypatch.setattr(SWITCHES, "replay", True)
    return fake


def case(channels=2, scales=1, degree=2, seed=0):
    edge_index, weight = random_graph(4, 0.8, 1, dtype=torch.float64)
    matrix = laplacian_operator(GraphStructure(edge_index, 4), weight).matrix
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(4, channels, dtype=torch.float64, generator=generator)
    coefficients = torch.rand(degree + 1, scales, 1, dtype=torch.float64, generator=generator)
    return matrix.csr, [(1 + 0.1 * seed) * matrix.values[0], x, coefficients]


def run(csr, leaves, learns=(True, True, True)):
    """A series and its gradients."""
    leaves = [
        each.detach().clone().requires_grad_(learn)
        for each, learn in zip(leaves, learns, strict=True)
    ]
    out = triton_gpu.SparseOperator(csr, leaves[0]).series(*leaves[1:])
    learned = [each for each in leaves if each.requires_grad]
    return [out.detach(), *torch.autograd.grad(out.sin().sum(), learned)]


def assert_same(found, wanted):
    for one, other in zip(found, wanted, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("windows", [True, False])
def test_a_graph_takes_new_numbers(cuda, monkeypatch, windows):
    monkeypatch.setattr(SWITCHES, "windows", windows)
    csr, _ = case()
    results = [run(csr, case(seed=seed)[1]) for seed in range(3)]
    assert (cuda.captures, cuda.replays) == (2, 4)  # forward and backward, from the second call on
    monkeypatch.setattr(SWITCHES, "replay", False)
    for seed, found in enumerate(results):  # results of one call are not those of the next
        assert_same(found, run(csr, case(seed=seed)[1]))
    assert cuda.replays == 4


def test_every_kind_of_call_has_a_graph(cuda):
    csr, leaves = case()
    learns = [(False, True, False), (True, True, True)]
    for _ in range(2):
        for learn in learns:
            run(csr, leaves, learn)
    assert cuda.captures == 4
    other = case()[0]  # an equal pattern is another one
    run(other, leaves)
    assert cuda.captures == 4
    for changed in (case(channels=3), case(scales=2), case(degree=1)):
        run(csr, changed[1])
    assert cuda.captures == 4
    cuda.stream = 1
    run(csr, leaves)
    assert cuda.captures == 4


def test_the_oldest_graph_goes(cuda):
    csr, leaves = case()
    with torch.no_grad():
        for channels in (1, 2, 3, 4, 5):
            for _ in range(2):
                run_forward(csr, case(channels=channels)[1])
        assert cuda.captures == 5
        run_forward(csr, leaves)
        assert cuda.captures == 5  # it is the fourth
        run_forward(csr, case(channels=1)[1])
        run_forward(csr, case(channels=1)[1])
        assert cuda.captures == 6


def run_forward(csr, leaves):
    return triton_gpu.SparseOperator(csr, leaves[0]).series(*leaves[1:])


def test_when_nothing_is_captured(cuda, monkeypatch):
    csr, leaves = case()
    wanted = run(csr, leaves)
    cuda.is_capturing = True
    assert_same(run(csr, leaves), wanted)
    cuda.is_capturing, cuda.free = False, 100
    assert_same(run(csr, leaves), wanted)
    cuda.free = 2**30
    monkeypatch.setattr(SWITCHES, "replay", False)
    assert_same(run(csr, leaves), wanted)
    assert (cuda.captures, cuda.replays) == (0, 0)
    monkeypatch.setattr(SWITCHES, "replay", True)
    monkeypatch.setattr(replay, "_DEVICE", "cuda")  # where the tensors are not
    assert_same(run(csr, leaves), wanted)
    assert cuda.captures == 0


def test_inference_copies_and_half_precision(cuda):
    csr, (values, x, coefficients) = case()
    leaves = values.float(), x.half(), coefficients.float()
    with torch.inference_mode():
        for _ in range(2):
            first = run_forward(csr, leaves)
    assert cuda.captures == 1
    assert torch.equal(run_forward(csr, leaves), first)
    assert cuda.replays == 2
    assert torch.equal(run_forward(copy.deepcopy(csr), leaves), first)
    assert cuda.replays == 2
