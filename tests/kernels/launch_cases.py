"""What a training step asks of a GPU, counted without one; test_triton.py says in what process."""

import copy
import math
import os
from dataclasses import fields

import pytest
import torch
from kernels.pretended_gpu import module_on_device, on_device, pretended_gpu, take_events
from laws import random_graph

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.graph import GraphStructure
from jsem_pyg.kernels.fused import SWITCHES
from jsem_pyg.nn import AnisotropicChebConv, AnisotropicDiffusion

pytestmark = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") != "1", reason="counts in Triton's interpreter"
)


@pytest.fixture(autouse=True)
def _all_switches(monkeypatch):
    for each in fields(SWITCHES):
        monkeypatch.setattr(SWITCHES, each.name, True)


TERMS = ("step_kernel", "step_back_kernel", "window_step_kernel", "window_step_back_kernel")
TERMS += ("begin_back_kernel",)
LAYERS = {
    "diffusion": lambda: AnisotropicDiffusion(t=0.5, tol=1e-3, backend="triton"),
    "convolution": lambda: AnisotropicChebConv(3, 2, t=0.5, tol=1e-3, backend="triton"),
}
# Launches beside the terms, forward and backward.
MOST = {"diffusion": (4, 6), "convolution": (6, 8)}


def launches_beside_terms(events):
    left_out = (*TERMS, "mm")  # the linear map of a convolution
    return [name for kind, name in events if kind == "launch" and name not in left_out]


@pytest.mark.parametrize(
    ("name", "windows"), [("diffusion", False), ("diffusion", True), ("convolution", True)]
)
def test_launches_and_waits(monkeypatch, name, windows):
    monkeypatch.setattr(SWITCHES, "windows", windows)
    edge_index, weight = random_graph(5, 0.5, 0)
    attr = edge_index.sum(0).sin().unsqueeze(-1)
    layer = module_on_device(LAYERS[name]())
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    with pretended_gpu():
        structure = GraphStructure(on_device(edge_index), 5)
        x, weight, attr = on_device(x).requires_grad_(), on_device(weight), on_device(attr)
        learned = [each for each in (x, *layer.parameters()) if each.requires_grad]
        for _ in range(2):  # the first call prepares, checks and remembers
            take_events()
            out = layer(x, structure, weight, attr)
            forward = take_events()
            torch.autograd.grad(out, learned, out.detach())
            backward = take_events()
    for events, most in zip((forward, backward), MOST[name], strict=True):
        assert len(launches_beside_terms(events)) <= most, launches_beside_terms(events)
        assert not any(kind in ("wait", "to device") for kind, _ in events)
        assert any(name.startswith("window") for _, name in events) == windows
    # The host looks at the times when everything has been launched.
    assert forward[-1] == ("late wait", "HostCopy")
    assert [kind for kind, _ in forward + backward].count("late wait") == 1


def test_launches_of_a_function():
    """A time on the host costs a copy to the device, of coefficients, and no wait."""
    edge_index, weight = random_graph(5, 0.5, 0)
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    with pretended_gpu():
        structure = GraphStructure(on_device(edge_index), 5)
        leaves = [on_device(each).requires_grad_() for each in (x, weight)]
        for _ in range(2):
            take_events()
            out = heat_diffusion(leaves[0], structure, leaves[1], 0.5, tol=1e-3, backend="triton")
            forward = take_events()
            torch.autograd.grad(out, leaves, out.detach())
            backward = take_events()
    assert len(launches_beside_terms(forward)) <= 2
    assert len(launches_beside_terms(backward)) <= 3
    others = [event for event in forward + backward if event[0] != "launch"]
    assert others == [("to device", "_to_copy")]


def test_a_time_that_passes_its_bound_is_computed_again():
    """So results depend on the times alone, not on those of the call before."""
    edge_index, weight = random_graph(3, 0.9, 0)
    structure, x = GraphStructure(edge_index, 3), torch.arange(3.0).double().unsqueeze(-1)
    triton, plain = (
        AnisotropicDiffusion(edge_dim=0, tol=1e-8, backend=backend).double()
        for backend in ("triton", "reference")
    )
    for t in (1.0, 1.01, 4.0, 1e-5):
        for layer in (triton, plain):
            layer.time.set(t)
        fresh = copy.deepcopy(triton)
        fresh._time_bound = None
        found, wanted = triton(x, structure, weight), plain(x, structure, weight)
        assert torch.equal(found, fresh(x, structure, weight))
        assert (found - wanted).norm() <= 1e-8 * wanted.norm()
        slopes = [
            torch.autograd.grad(out.square().sum(), layer.time.raw)[0]
            for out, layer in ((found, triton), (wanted, plain))
        ]
        torch.testing.assert_close(*slopes, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("t", [math.nan, 2e4])
def test_times_out_of_range_are_refused(t):
    edge_index, weight = random_graph(4, 0.9, 0)
    structure, x = GraphStructure(edge_index, 4), torch.eye(4)
    layer = AnisotropicDiffusion(edge_dim=0, t=1.0, backend="triton")
    layer(x, structure, weight.float())
    with torch.no_grad():
        layer.time.start.fill_(t)
    with pytest.raises(ValueError, match="'t'"):
        layer(x, structure, weight.float())
