"""What a training step asks of a GPU, counted without one; test_triton.py says in what process."""

import os

import pytest
import torch
from kernels.pretended_gpu import module_on_device, on_device, pretended_gpu, take_events

from jsem_pyg.graph import GraphStructure
from jsem_pyg.nn import AnisotropicChebConv, AnisotropicDiffusion
from jsem_pyg.testing import random_graph

pytestmark = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") != "1", reason="counts in Triton's interpreter"
)
TERMS = ("_step_kernel", "_step_back_kernel")
LAYERS = {
    "diffusion": lambda: AnisotropicDiffusion(t=2.0, backend="triton"),
    "convolution": lambda: AnisotropicChebConv(3, 2, backend="triton", bias=False),
}
# Launches beside the terms, and times that the host waits for the device.
FORWARD = {"diffusion": (6, 1), "convolution": (7, 1)}
BACKWARD = {"diffusion": (8, 1), "convolution": (9, 1)}


def beside_terms(counted):
    launches = {
        name: count
        for (kind, name), count in counted.items()
        if kind == "launch" and name not in (*TERMS, "mm")
    }
    waits = sum(count for (kind, _), count in counted.items() if kind == "wait")
    return launches, waits


@pytest.mark.parametrize("name", LAYERS)
def test_launches_and_waits(name):
    edge_index, weight = random_graph(8, 0.4, 0)
    attr = edge_index.sum(0).sin().unsqueeze(-1)
    layer = module_on_device(LAYERS[name]())
    x = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))
    with pretended_gpu():
        structure = GraphStructure(on_device(edge_index), 8)
        x, weight, attr = on_device(x).requires_grad_(), on_device(weight), on_device(attr)
        learned = [each for each in (x, *layer.parameters()) if each.requires_grad]
        for _ in range(2):  # the first call prepares, checks and remembers
            take_events()
            out = layer(x, structure, weight, attr)
            forward = beside_terms(take_events())
            torch.autograd.grad(out, learned, out.detach())
            backward = beside_terms(take_events())
    for counted, (most, waits) in ((forward, FORWARD[name]), (backward, BACKWARD[name])):
        assert sum(counted[0].values()) <= most, counted
        assert counted[1] <= waits
