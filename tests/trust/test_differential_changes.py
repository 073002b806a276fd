"""Layers that are called again after anything has changed, in place or without a trace.

A layer remembers what it has prepared and checked; whatever was changed since, it gives what dense
algebra gives of the numbers as they are. A few cases in every run, as many as `JSEM_CASES` on
demand, see `settings.py`.
"""

import copy
import pickle

import torch
from hypothesis import given
from hypothesis import strategies as st
from trust.draws import SEEDS, generator
from trust.oracle import distance, graph_heat
from trust.settings import draws

from jsem_pyg.nn import AnisotropicDiffusion

TIMES = st.sampled_from([1.3, [0.5, 2.0]])
WAYS = st.sampled_from(["in place", ".data", "numpy"])
COPIES = {"deepcopy": copy.deepcopy, "pickle": lambda layer: pickle.loads(pickle.dumps(layer))}


def write(tensor, values, way):
    """Give a tensor other values, in a way that torch may not notice."""
    if way == "in place":
        tensor.copy_(values)
    elif way == ".data":
        tensor.data.copy_(values)
    else:
        tensor.numpy()[...] = values.numpy()


def both_ways(once):
    return torch.cat([once, once])


def change_parameters(layer, g):
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=g))


def side_by_side(out, t):
    return out if t.dim() == 0 else out.transpose(-3, -2).flatten(-2)


@draws(15)
@given(st.data())
def test_graphs(data):
    g = generator(data.draw(SEEDS))
    n = data.draw(st.integers(2, 8))
    once = (torch.rand(n, n, generator=g) < 0.5).triu(1).nonzero().T
    edge_index, m = torch.cat([once, once.flip(0)], 1), once.size(1)
    x, weight = torch.randn(n, 2, generator=g), both_ways(torch.rand(m, generator=g) + 0.1)
    attr = both_ways(torch.randn(m, 2, generator=g))
    normalization = data.draw(st.sampled_from(["sym", "rw", None]))
    conductance = data.draw(st.sampled_from(["sigmoid", "mlp"]))
    options = {"normalization": normalization, "conductance": conductance}
    layer = AnisotropicDiffusion(2, t=data.draw(TIMES), **options)
    changes = data.draw(st.lists(st.sampled_from("xwaep"), min_size=1, max_size=5))
    for change in ["start", *changes]:
        way = data.draw(WAYS)
        if change == "x":
            write(x, torch.randn(n, 2, generator=g), way)
        elif change == "w":
            write(weight, both_ways(torch.rand(m, generator=g) + 0.1), way)
        elif change == "a":
            write(attr, both_ways(torch.randn(m, 2, generator=g)), way)
        elif change == "e":  # of which only changes in place are promised to be seen
            write(edge_index, torch.randperm(n, generator=g)[edge_index], "in place")
        elif change == "p":
            change_parameters(layer, g)
        called = COPIES.get(data.draw(st.sampled_from(["none", *COPIES])), lambda same: same)(layer)
        conducted = weight.double() * layer.conductance(attr).detach().double()
        t = layer.t.detach().double()
        expected = graph_heat(x.double(), edge_index, conducted, t, normalization)
        out = called(x, edge_index, weight, attr)
        assert distance(out, side_by_side(expected, t), x.norm()) <= 5e-6 * expected.dim()
