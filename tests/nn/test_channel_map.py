"""`lin` is a module like any other: whatever is put on it, in it or around it takes effect."""

import copy
import pickle

import pytest
import torch
from hypergraph_cases import case
from layer_cases import CHANNELS, make_data
from torch.nn.utils import parametrizations, prune
from torch_geometric.nn.dense.linear import Linear

from jsem_pyg.diffusion import heat_diffusion, hypergraph_diffusion
from jsem_pyg.nn import AnisotropicChebConv, HypergraphChebConv

SCALES = [1.5, [0.5, 1.0, 2.0]]
WIDTHS = {"narrowing": 1, "widening": 20}  # with three scales too


class LowRank(torch.nn.Module):
    """A frozen map and a learned one of rank two beside it, as LoRA has them."""

    def __init__(self, base):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = torch.nn.Linear(base.in_channels, 2, bias=False)
        self.up = torch.nn.Linear(2, base.out_channels, bias=False)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def wrap(conv):
    conv.lin = LowRank(conv.lin)


def replace_forward(conv):
    """As accelerate does."""
    forward = conv.lin.forward
    conv.lin.forward = lambda x: 2 * forward(x)


def swap(conv):
    conv.lin = torch.nn.Linear(conv.lin.in_channels, conv.out_channels, bias=False)


ADAPTERS = {
    "plain": lambda conv: None,
    "wrapper": wrap,
    "another module": swap,
    "another forward": replace_forward,
    "forward hook": lambda conv: conv.lin.register_forward_hook(lambda lin, args, out: 2 * out),
    "forward pre-hook": lambda conv: conv.lin.register_forward_pre_hook(
        lambda lin, args: (3 * args[0],)
    ),
    "pruning": lambda conv: prune.l1_unstructured(conv.lin, "weight", 0.5),
    "weight norm": lambda conv: parametrizations.weight_norm(conv.lin),
    "spectral norm": lambda conv: parametrizations.spectral_norm(conv.lin),
    "orthogonal": lambda conv: parametrizations.orthogonal(conv.lin),
}


def on_graph(out_channels, t):
    data = make_data()
    conv = AnisotropicChebConv(CHANNELS, out_channels, edge_dim=0, t=t, add_self_loops=False)

    def layer(conv, x):
        return conv(x, data.edge_index, data.edge_weight)

    def diffuse(x, t):
        return heat_diffusion(x, data.edge_index, data.edge_weight, t)

    return conv, layer, diffuse, data.x


def on_hypergraph(out_channels, t):
    structure, weight = case("random", dtype=torch.float32)
    conv = HypergraphChebConv(CHANNELS, out_channels, t=t)

    def layer(conv, x):
        return conv(x, structure, weight)

    def diffuse(x, t):
        return hypergraph_diffusion(x, structure, weight, t)

    return conv, layer, diffuse, torch.randn(structure.num_nodes, CHANNELS)


def by_hand(conv, diffuse, x):
    """Diffuse, put the scales side by side, map, add."""
    scales = diffuse(x, conv.t.reshape(-1))  # [S, N, D]
    return conv.lin(scales.transpose(0, 1).flatten(1)) + conv.bias


@pytest.mark.parametrize("make", [on_graph, on_hypergraph])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("t", SCALES)
@pytest.mark.parametrize("adapter", ADAPTERS)
def test_what_is_put_on_the_map_takes_effect(adapter, t, width, make):
    convs = []
    for _ in range(2):
        torch.manual_seed(0)
        conv, layer, diffuse, x = make(WIDTHS[width], t)
        ADAPTERS[adapter](conv)
        convs.append(conv)
    conv, other = convs
    before = layer(conv, x).detach()
    by_hand(other, diffuse, x)  # as many calls: spectral_norm takes a step in each
    runs = [(conv, lambda: layer(conv, x)), (other, lambda: by_hand(other, diffuse, x))]
    outs = []
    for model, run in runs:
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.05)
        for _ in range(3):
            optimizer.zero_grad()
            run().sin().sum().backward()
            optimizer.step()
        outs.append(run().detach())
    torch.testing.assert_close(outs[0], outs[1], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(outs[0], before, atol=1e-3)
    for a, b in zip(conv.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("make", [on_graph, on_hypergraph])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("t", SCALES)
def test_hooks_are_called_once(t, width, make):
    conv, layer, _, x = make(WIDTHS[width], t)
    calls = []
    conv.lin.register_forward_hook(lambda *_: calls.append("after"))
    conv.lin.register_forward_pre_hook(lambda *_: calls.append("before"))
    layer(conv, x)
    assert calls == ["before", "after"]


@pytest.mark.parametrize("t", SCALES)
def test_hooks_of_a_lazy_map_see_its_first_input(t):
    data = make_data()
    conv = AnisotropicChebConv(-1, 1, edge_dim=0, t=t)
    conv.lin.register_forward_hook(lambda lin, args, out: 2 * out)
    first = conv(data.x, data.edge_index)
    torch.testing.assert_close(first, conv(data.x, data.edge_index))


@pytest.mark.parametrize("t", SCALES)
def test_hooks_on_all_modules_are_called(t):
    conv, layer, _, x = on_graph(1, t)
    seen = []
    handle = torch.nn.modules.module.register_module_forward_hook(
        lambda module, args, out: seen.append(module)
    )
    layer(conv, x)
    handle.remove()
    assert conv.lin in seen


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
@pytest.mark.parametrize("t", SCALES)
def test_a_lazy_map_of_sparse_features(t, layout):
    data = make_data()
    arguments = (data.edge_index, data.edge_weight, data.edge_attr)
    conv = AnisotropicChebConv(-1, 1, t=t)
    out = conv(data.x.to_sparse(layout=layout), *arguments)
    count = len(t) if isinstance(t, list) else 1
    assert conv.lin.weight.shape == (1, count * CHANNELS)
    torch.testing.assert_close(out, conv(data.x, *arguments))
    out.sin().sum().backward()
    gradient, conv.lin.weight.grad = conv.lin.weight.grad, None
    conv(data.x, *arguments).sin().sum().backward()
    torch.testing.assert_close(gradient, conv.lin.weight.grad, rtol=1e-4, atol=1e-5)
    # What is learned fits into another lazy layer, and into one of the right size.
    for other in (AnisotropicChebConv(-1, 1, t=t), AnisotropicChebConv(CHANNELS, 1, t=t)):
        other.load_state_dict(conv.state_dict())
        torch.testing.assert_close(other(data.x, *arguments), out)


@pytest.mark.parametrize("t", SCALES)
@pytest.mark.parametrize(
    "duplicate", [copy.deepcopy, lambda conv: pickle.loads(pickle.dumps(conv))]
)
def test_copies(duplicate, t):
    data = make_data()
    arguments = (data.x, data.edge_index, data.edge_weight, data.edge_attr)
    lazy = AnisotropicChebConv(-1, 3, t=t)
    fresh = duplicate(lazy)
    assert fresh(*arguments).shape == lazy(*arguments).shape == (len(data.x), 3)
    torch.testing.assert_close(duplicate(lazy)(*arguments), lazy(*arguments))
    still_lazy = AnisotropicChebConv(-1, 3, t=t)
    still_lazy.load_state_dict(AnisotropicChebConv(-1, 3, t=t).state_dict())
    assert still_lazy(*arguments).shape == (len(data.x), 3)


@pytest.mark.parametrize("conv", [AnisotropicChebConv, HypergraphChebConv])
@pytest.mark.parametrize("channels", [(16, 16), (-1, -1), [16, 16]])
def test_channels_of_a_bipartite_graph_are_refused(conv, channels):
    with pytest.raises(ValueError, match="'in_channels' to be an integer.*bipartite"):
        conv(channels, 8)


def test_the_map_is_one_of_pyg():
    assert type(AnisotropicChebConv(4, 2).lin) is Linear
