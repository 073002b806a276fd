"""`lin` is a module like any other: whatever is put on it, in it or around it takes effect."""

import copy
import pickle

import pytest
import torch
from hypergraph_cases import case, hypergraph_diffusion
from layer_cases import CHANNELS, NUM_NODES, Similarity, bend, call, make_data
from torch.nn.utils import parametrizations, prune

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.nn import AnisotropicChebConv, AnisotropicDiffusion, HypergraphChebConv

SCALES = [1.5, [0.5, 1.0, 2.0]]
NARROW, WIDE = 1, 20  # channels that come out: with one scale, narrow maps come first


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
    conv.lin = torch.nn.Linear(conv.lin.in_channels, conv.out_channels)


ADAPTERS = {
    "plain": lambda conv: None,
    "wrapper": wrap,
    "another module, with a bias": swap,
    "another forward": replace_forward,
    "forward hook": lambda conv: conv.lin.register_forward_hook(lambda lin, args, out: 2 * out),
    "forward pre-hook": lambda conv: conv.lin.register_forward_pre_hook(
        lambda lin, args: (3 * args[0],)
    ),
    "pruning": lambda conv: prune.l1_unstructured(conv.lin, "weight", 0.5),
    "weight norm": lambda conv: parametrizations.weight_norm(conv.lin),
}


def on_graph(out_channels, t):
    data = make_data()
    conv = AnisotropicChebConv(CHANNELS, out_channels, edge_dim=0, t=t, add_self_loops=False)
    edges = data.edge_index, data.edge_weight
    return conv, edges, heat_diffusion, data.x


def on_hypergraph(out_channels, t):
    structure, weight = case("random", dtype=torch.float32)
    conv = HypergraphChebConv(CHANNELS, out_channels, t=t)
    x = torch.randn(structure.num_nodes, CHANNELS)
    return conv, (structure, weight), hypergraph_diffusion, x


@pytest.mark.parametrize(
    ("make", "width", "t"),
    [(on_graph, NARROW, 1.5), (on_graph, WIDE, SCALES[1]), (on_hypergraph, NARROW, 1.5)],
)
@pytest.mark.parametrize("adapter", ADAPTERS)
def test_what_is_put_on_the_map_takes_effect(adapter, make, width, t):
    outs, convs = [], []
    for by_hand in (False, True):
        torch.manual_seed(0)
        conv, edges, diffuse, x = make(width, t)
        ADAPTERS[adapter](conv)
        convs.append(conv)
        optimizer = torch.optim.SGD([p for p in conv.parameters() if p.requires_grad], lr=0.05)

        def run(conv=conv, edges=edges, diffuse=diffuse, x=x, by_hand=by_hand):
            if not by_hand:
                return conv(x, *edges)
            scales = diffuse(x, *edges, conv.t.reshape(-1))  # [S, N, D]
            return conv.lin(scales.transpose(0, 1).flatten(1)) + conv.bias

        before = run().detach()
        for _ in range(2):
            optimizer.zero_grad()
            run().sin().sum().backward()
            optimizer.step()
        outs.append(run().detach())
        assert not torch.allclose(outs[-1], before, atol=1e-3)
    torch.testing.assert_close(*outs, rtol=1e-4, atol=1e-5)
    for a, b in zip(*(conv.parameters() for conv in convs), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
@pytest.mark.parametrize(("in_channels", "fuse"), [(CHANNELS, True), (-1, True), (4, False)])
def test_sparse_features_are_mapped_first(in_channels, fuse, layout):
    data = make_data()
    conv = bend(AnisotropicChebConv(in_channels, 1, fuse=fuse))
    x = data.x * (data.x > 0)
    outs = [call(conv, data, each) for each in (x.to_sparse(layout=layout), x)]
    torch.testing.assert_close(*outs)
    grads = [torch.autograd.grad(out.square().sum(), conv.parameters()) for out in outs]
    torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
def test_sparse_features_that_would_fill_up_or_are_not_finite_are_refused(layout):
    data = make_data()
    x = data.x.to_sparse(layout=layout)
    for refusing in (
        AnisotropicChebConv(4, 9),
        AnisotropicChebConv(-1, 1, t=[1.0, 2.0]),
        AnisotropicChebConv(4, 1, conductance=Similarity()),
        AnisotropicDiffusion(),
    ):
        with pytest.raises(ValueError, match="'x' to be dense.*pass x.to_dense()"):
            call(refusing, data, x)
    with pytest.raises(ValueError, match="'x' to be finite"):
        call(AnisotropicChebConv(4, 1), data, x * float("nan"))


@pytest.mark.parametrize("make", [AnisotropicChebConv, HypergraphChebConv])
@pytest.mark.parametrize("t", SCALES)
def test_lazy_in_channels(make, t):
    data, edges = make_data(), (torch.tensor([[0, 1, 2], [0, 0, 1]]),)
    if make is AnisotropicChebConv:
        edges = data.edge_index, data.edge_weight, data.edge_attr
    lazy = make(-1, 1, t=t)
    fresh = pickle.loads(pickle.dumps(copy.deepcopy(lazy)))  # before it knows its width
    assert fresh(data.x, *edges).shape == (NUM_NODES, 1)
    lazy.lin.register_forward_hook(lambda lin, args, out: 2 * out)
    out = lazy(data.x, *edges)
    assert lazy.lin.weight.shape == (1, CHANNELS * (3 if isinstance(t, list) else 1))
    torch.testing.assert_close(lazy(data.x, *edges), out)
    torch.testing.assert_close(copy.deepcopy(lazy)(data.x, *edges), out)
    for channels in (-1, CHANNELS):
        loaded = make(channels, 1, t=t)
        loaded.load_state_dict(lazy.state_dict())
        torch.testing.assert_close(2 * loaded(data.x, *edges) - loaded.bias, out)
    with pytest.raises(ValueError, match="'x' to have 4 channels"):
        loaded(data.x[:, 1:], *edges)


@pytest.mark.parametrize("conv", [AnisotropicChebConv, HypergraphChebConv])
def test_channels_of_a_bipartite_graph_are_refused(conv):
    with pytest.raises(ValueError, match="'in_channels' to be an integer.*bipartite"):
        conv((16, 16), 8)
