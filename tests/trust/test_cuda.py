"""The central calls give on a GPU what they give on the CPU, and leave their results there.

Without a GPU there is nothing to run.
"""

import dataclasses
import re
import warnings
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from laws import random_graph
from layer_cases import CHANNELS, NUM_NODES, make_data
from torch_geometric.data import Data
from training.training_cases import two_clusters
from trust.central_calls import CALLS, central_call, numbers

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.graph import GraphStructure
from jsem_pyg.nn import AnisotropicChebConv, AnisotropicDiffusion, DiffusionClassifier
from jsem_pyg.training import FitResult, fit

pytestmark = [
    pytest.mark.ci,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]

CUDA = "cuda"
ON_THE_CPU = ("NeighborIndex", "DiffusionClusterer")  # the one keeps its points, arrays the other
# Calls whose results lie on the CPU.
ANYWHERE = r"recursive_partition|fit.*"


def on(value, device):
    """What a call is made of, moved."""
    if isinstance(value, list):
        return [on(each, device) for each in value]
    return value.to(device) if isinstance(value, torch.Tensor | torch.nn.Module | Data) else value


def tensors(result):
    """All tensors in a result."""
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, Data):
        result = result.to_dict()
    if isinstance(result, FitResult):
        return []
    if dataclasses.is_dataclass(result):
        result = vars(result)
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, list | tuple):
        return [tensor for part in result for tensor in tensors(part)]
    return []


def outcome(device, key, learns):
    """The result of a call, and the gradients of the floating-point tensors it was given."""
    function, given = central_call(key)
    function = on(function, device)
    given = {name: on(value, device) for name, value in given.items()}
    leaves = []
    for name, value in given.items():
        if learns and isinstance(value, torch.Tensor) and value.is_floating_point():
            given[name] = value.requires_grad_()
            leaves.append(value)
    torch.manual_seed(0)
    result = function(**given)
    last = [each for each in tensors(result) if each.grad_fn is not None]
    if not leaves or not last:
        return result, []
    total = sum((weights(each) * each.double().cpu()).sum() for each in last)
    found = torch.autograd.grad(total, leaves, allow_unused=True)
    return result, [each for each in found if each is not None]


def weights(like):
    """Any numbers of a shape."""
    return torch.linspace(-1, 2, like.numel() + 2, dtype=torch.float64)[1:-1].view(like.shape)


@pytest.mark.parametrize("key", [key for key in CALLS if key not in ON_THE_CPU])
def test_the_same_comes_out(key):
    learns = True
    try:
        expected, wanted = outcome("cpu", key, learns)
    except (TypeError, ValueError):  # what has no gradient
        learns = False
        expected, wanted = outcome("cpu", key, learns)
    actual, found = outcome(CUDA, key, learns)
    away = {each.device.type for each in tensors(actual)} - {CUDA}
    assert not away or re.fullmatch(ANYWHERE, key), f"{key}: results on {away}"
    assert not {each.device.type for each in found} - {CUDA}
    rtol = 1e-2 if re.match("fit|gw|gromov|match", key) else 1e-3
    pairs = zip(numbers(actual) + found, numbers(expected) + wanted, strict=True)
    for one, other in pairs:
        one, other = one.double().cpu(), other.double()
        torch.testing.assert_close(one, other, rtol=rtol, atol=1e-4, equal_nan=True)


@contextmanager
def counted_waits():
    """Where the host waited for the GPU."""
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("warn")
    places = []
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield places
    finally:
        torch.cuda.set_sync_debug_mode("default")
    places += [
        f"{Path(each.filename).name}:{each.lineno}"
        for each in caught
        if "synchronizing CUDA" in str(each.message)
    ]


LAYERS = {
    "AnisotropicDiffusion": lambda: AnisotropicDiffusion(t=2.0, degree=5),
    "AnisotropicChebConv": lambda: AnisotropicChebConv(CHANNELS, 4),
    "DiffusionClassifier": lambda: DiffusionClassifier(CHANNELS, 3),
}


# Of the forward pass, which reads the time, and of a classifier's features whether they are finite;
# and of the backward pass, where the time's gradient goes through the CPU.
WAITS = {
    "AnisotropicDiffusion": (1, 2),
    "AnisotropicChebConv": (1, 2),
    "DiffusionClassifier": (3, 4),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_training_step_hardly_waits_for_the_gpu(name):
    data, layer = make_data().to(CUDA), LAYERS[name]().to(CUDA)
    structure = GraphStructure(data.edge_index, NUM_NODES)
    for _ in range(3):
        with counted_waits() as places:
            out = layer(data.x, structure, data.edge_weight)
        with counted_waits() as later:
            out.square().sum().backward()
    assert len(places) <= WAITS[name][0], places
    assert len(later) <= WAITS[name][1], later


def test_diffusion_for_a_time_that_is_known_does_not_wait_for_the_gpu():
    data = make_data().to(CUDA)
    structure = GraphStructure(data.edge_index, NUM_NODES)
    for _ in range(3):
        x, weight = data.x.clone().requires_grad_(), data.edge_weight.clone().requires_grad_()
        with counted_waits() as places:
            heat_diffusion(x, structure, weight, 2.0).square().sum().backward()
    assert not places


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_on_a_gpu_changes_nothing(dtype):
    data = make_data().to(CUDA)
    expected = heat_diffusion(data.x, data.edge_index, data.edge_weight, 2.0)
    with torch.autocast(CUDA, dtype):
        actual = heat_diffusion(data.x, data.edge_index, data.edge_weight, 2.0)
    assert torch.equal(actual, expected)


def test_another_stream():
    data = make_data().to(CUDA)
    expected = heat_diffusion(data.x, data.edge_index, data.edge_weight, 2.0)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        actual = heat_diffusion(data.x, data.edge_index, data.edge_weight, 2.0)
    torch.cuda.current_stream().wait_stream(stream)
    assert torch.equal(actual, expected)


class Smooth(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.eye(6))
        self.layer = AnisotropicDiffusion()

    def forward(self, x, edge_index, edge_weight=None, edge_attr=None):
        x = torch.nn.functional.dropout(x, 0.2, self.training)
        return self.layer(x @ self.weight, edge_index, edge_weight)


def test_training_repeats_and_leaves_the_generators_alone():
    data, learned = two_clusters().to(CUDA), []
    for _ in range(2):
        model = Smooth().to(CUDA)
        before = torch.random.get_rng_state(), torch.cuda.get_rng_state()
        fit(model, data, sampler="labels", epochs=2, batch_size=8)
        after = torch.random.get_rng_state(), torch.cuda.get_rng_state()
        assert all(map(torch.equal, before, after))
        learned.append([each.detach().clone() for each in model.parameters()])
    assert all(map(torch.equal, *learned)), learned


def test_two_runs_agree_to_the_last_bit_where_torch_is_told_to(request):
    """Also where a graph has several components, and some nodes no neighbours."""
    torch.use_deterministic_algorithms(True)
    request.addfinalizer(lambda: torch.use_deterministic_algorithms(False))
    generator = torch.Generator().manual_seed(0)
    edge_index, weight = random_graph(400, 0.01, 30, seed=1, dtype=torch.float32)
    x = torch.randn(430, 8, generator=generator)
    for normalization in ("sym", "rw", None):
        found = []
        for _ in range(2):
            leaves = [each.to(CUDA).requires_grad_() for each in (x, weight)]
            leaves = [each.detach().clone().requires_grad_() for each in leaves]
            t = torch.tensor(3.0, requires_grad=True)
            out = heat_diffusion(
                leaves[0], edge_index.to(CUDA), leaves[1], t, normalization=normalization
            )
            out.square().sum().backward()
            found.append([out, *(each.grad for each in (*leaves, t))])
        assert all(map(torch.equal, *found))
