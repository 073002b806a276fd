"""What a training step asks of a GPU, counted without one; test_triton.py says in what process."""

import os

import pytest
import torch
from kernels.pretended_gpu import module_on_device, on_device, pretended_gpu, take_events
from laws import random_graph

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.graph import GraphStructure
from jsem_pyg.nn import AnisotropicChebConv, AnisotropicDiffusion

pytestmark = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") != "1", reason="counts in Triton's interpreter"
)
TERMS = ("step_kernel", "step_back_kernel", "begin_back_kernel")
OPTIONS = {"t": 0.5, "tol": 1e-3, "backend": "triton"}
# Launches beside the terms, forward and backward: measured, and a few more.
CASES = {
    "function": (None, 20, 34),
    "diffusion": (AnisotropicDiffusion, 34, 50),
    "convolution": (lambda **options: AnisotropicChebConv(3, 2, **options), 62, 78),
}


def launches_beside_terms(events):
    left_out = (*TERMS, "mm")  # the linear map of a convolution
    return [name for kind, name in events if kind == "launch" and name not in left_out]


@pytest.mark.parametrize("name", list(CASES))
def test_launches_and_waits(name):
    """No step waits before the first launch but for a learned time, once; at the end for its u."""
    make, *most = CASES[name]
    edge_index, weight = random_graph(5, 0.5, 0)
    attr = edge_index.sum(0).sin().unsqueeze(-1)
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    layer = None if make is None else module_on_device(make(**OPTIONS))
    with pretended_gpu():
        structure = GraphStructure(on_device(edge_index), 5)
        x, weight, attr = on_device(x).requires_grad_(), on_device(weight), on_device(attr)
        learned = [x, weight.requires_grad_()] if layer is None else [x, *layer.parameters()]
        for _ in range(2):  # the first call prepares, checks and remembers
            take_events()
            if layer is None:
                out = heat_diffusion(x, structure, weight, **OPTIONS)
            else:
                out = layer(x, structure, weight, attr)
            forward = take_events()
            torch.autograd.grad(out, learned, out.detach())
            backward = take_events()
    for events, limit in zip((forward, backward), most, strict=True):
        assert len(launches_beside_terms(events)) <= limit, launches_beside_terms(events)
    waits = [event for event in forward + backward if event[0] == "wait"]
    assert len(waits) == (0 if layer is None else 2), waits
