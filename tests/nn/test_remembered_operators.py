"""An operator that is remembered from call to call gives what one made anew gives."""

import pickle

import pytest
import torch
from laws import random_graph

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.graph import GraphStructure
from jsem_pyg.nn import AnisotropicDiffusion

EDGE_INDEX, WEIGHT = random_graph(9, 0.5, num_isolated=1, dtype=torch.float32)
X = torch.randn(9, 3, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("place", [2, 3])
def test_values_that_change_without_a_trace_are_seen(place):
    ends = EDGE_INDEX.sum(0).float()
    given = [X, EDGE_INDEX, WEIGHT.clone(), torch.stack([ends, ends.sin()], 1)]
    layer = AnisotropicDiffusion(edge_dim=2).requires_grad_(False)
    layer.conductance.slope.copy_(torch.tensor([0.3, -2.0]))
    before, values = layer(*given), given[place].numpy()
    values[EDGE_INDEX.numpy().sum(0) % 2 == 0] *= 0.5
    assert not torch.equal(layer(*given), before)
    assert torch.equal(layer(*given), layer(*(each.clone() for each in given)))  # a new graph
    layer(*given)
    for value in (-5.0, float("nan"), float("inf"), 7.0):
        values.reshape(-1)[0] = value  # 7.0: no longer the same in both directions
        with pytest.raises(ValueError, match="edge_weight" if place == 2 else "edge_attr"):
            layer(*given)


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
def test_what_was_made_without_gradients_serves_training(mode):
    layer, weight = AnisotropicDiffusion(edge_dim=0), WEIGHT.clone().requires_grad_()
    with mode():
        before = layer(X, EDGE_INDEX, weight)
    x = X.clone().requires_grad_()
    out = layer(x, EDGE_INDEX, WEIGHT)
    out.sum().backward()
    assert torch.equal(out, before)
    assert [each.grad is None for each in (x, weight)] == [False, True]


def test_copies_start_without_it():
    structure, sizes = GraphStructure(EDGE_INDEX, 9), set()
    for normalization in ("sym", "rw"):
        heat_diffusion(X, structure, WEIGHT, normalization=normalization)
        sizes.add(len(pickle.dumps(structure)))
    assert len(sizes) == 1
