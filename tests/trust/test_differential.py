"""Every way to diffuse on a graph, against dense algebra: values and all gradients.

A few cases in every run; ``JSEM_CASES=2000 pytest tests/trust/test_differential*.py`` draws as
many of each test. Whatever a case is, either the numbers are right or the call is refused by an
error of ours for one of the reasons in `REFUSED`.
"""

import re

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch_geometric.typing import WITH_TORCH_SPARSE
from trust.draws import NORMALIZATIONS, SPARSE, graphs, signals, times
from trust.oracle import distance, graph_heat
from trust.settings import draws

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.nn import AnisotropicChebConv, AnisotropicDiffusion

LONGEST = 1e4  # time, in units of the fastest rate
BACKENDS = ["reference", "torch", "numba", *(["torch_sparse"] if WITH_TORCH_SPARSE else [])]
REFUSED = r"'t' to be at most|which have no direction"


def allowed(x, reach, condition=1.0):
    """The relative error that the documentation allows, and a little for the oracle's own."""
    eps = torch.finfo(x.dtype).eps
    return 4 * eps + 1.2e-6 + condition * 1e-15 * max(reach, 1.0)


def reach_of(graph, t, normalization):
    """The longest time in units of the fastest rate, and how far apart the degrees are."""
    degree = torch.zeros(graph.num_nodes, dtype=torch.float64)
    degree = degree.index_add(0, graph.edge_index[1], graph.exact_weight)
    longest = float(t.max())
    positive = degree[degree > 0]
    if normalization is None:
        return longest * float(degree.max()), 1.0
    if normalization == "rw" and positive.numel():
        return longest, float((positive.max() / positive.min()).sqrt())
    return longest, 1.0


def leaf(value):
    return value.detach().clone().requires_grad_()


@draws(60)
@given(st.data())
def test_heat_diffusion(data):
    graph = data.draw(graphs())
    x = data.draw(signals(graph.num_nodes))
    normalization = data.draw(NORMALIZATIONS)
    backend = data.draw(st.sampled_from(["auto", *BACKENDS]))
    t, exact_t = data.draw(times(x.size(-1), LONGEST))
    reach, condition = reach_of(graph, exact_t, normalization)
    if reach > LONGEST:
        t, exact_t = 0.0, torch.tensor(0.0, dtype=torch.float64)
        reach = 0.0

    is_leaf = graph.weight is not None and graph.form not in SPARSE
    weight = leaf(graph.weight) if is_leaf else None
    signal = x.detach().requires_grad_()
    time = leaf(t) if isinstance(t, torch.Tensor) else t
    try:
        out = heat_diffusion(
            signal, graph.given, weight, time, normalization=normalization, backend=backend
        )
    except ValueError as error:
        if not re.search(REFUSED, str(error)):
            raise
        return

    exact_x, exact_w, exact_time = leaf(x.double()), leaf(graph.exact_weight), leaf(exact_t)
    expected = graph_heat(exact_x, graph.edge_index, exact_w, exact_time, normalization)
    assert out.dtype == x.dtype
    assert out.shape == expected.shape
    scale = x.double().norm()
    assert distance(out, expected, scale * len(exact_t.flatten()) ** 0.5) <= allowed(
        x, reach, condition
    )

    direction = torch.sin(torch.arange(out.numel(), dtype=torch.float64)).reshape(out.shape)
    out.backward(direction.to(out.dtype))
    expected.backward(direction)
    bound = 30 * allowed(x, reach, condition) * (1 + reach)
    of_x = direction.norm()
    assert distance(signal.grad, exact_x.grad, of_x) <= bound
    if isinstance(t, torch.Tensor):
        of_t = direction.norm() * scale
        one = torch.ones(1, dtype=torch.float64)
        rate = reach_of(graph, one, normalization)[0]
        if exact_time.grad.to(time.dtype).isfinite().all():
            assert distance(time.grad, exact_time.grad, max(rate, 1.0) * of_t) <= bound
    is_known = is_leaf and weight.numel() and weight.grad is not None
    if is_known and (weight.grad + exact_w.grad).isfinite().all():
        # Weights times their gradient: relative changes of the weights, whatever their scale.
        actual = weight.grad.double() * exact_w
        wanted = exact_w.grad * exact_w.detach()
        # Smaller gradients are smaller than the type's smallest numbers.
        tiniest = float(exact_w.max()) * torch.finfo(weight.dtype).tiny / bound
        assert distance(actual, wanted, max(direction.norm() * scale, tiniest)) <= bound


@draws(25)
@given(st.data())
def test_layers(data):
    graph = data.draw(graphs(exponents=((0, 0), (-3, 3))))
    x = data.draw(signals(graph.num_nodes, dtypes=["float32"], batches=False))
    x = x / max(float(x.abs().max()), 1e-30)
    normalization = data.draw(NORMALIZATIONS)
    fuse, loops = data.draw(st.booleans()), data.draw(st.booleans())
    key = graph.edge_index.double()
    attr = torch.sin(key[0] * key[1] + key.sum(0)).float()
    t = [0.4, 3.0]
    if loops:
        layer = AnisotropicChebConv(x.size(1), 2, t=t, normalization=normalization, fuse=fuse)
    else:
        layer = AnisotropicDiffusion(t=t, normalization=normalization, fuse=fuse)
    with torch.no_grad():
        layer.conductance.slope.fill_(40.0 if loops else 1.3)
        layer.conductance.threshold.fill_(0.1)
    weight = None if graph.form in SPARSE else graph.weight
    weight = weight if weight is None else weight.float()
    out = layer(x, graph.given, weight, attr)
    conductance = layer.conductance(attr[:, None]).double()
    whole = graph.exact_weight if weight is None else weight.double()
    conducted = whole * conductance
    degree, part = (
        torch.zeros(graph.num_nodes).double().index_add(0, graph.edge_index[1], each)
        for each in (whole, conducted)
    )
    if loops and normalization is not None:  # edges conduct relative to those around
        mean = torch.where(degree > 0, part / degree.clamp(min=1e-300), 1)
        conducted = conducted / (mean[graph.edge_index[0]] * mean[graph.edge_index[1]]).sqrt()
    expected = graph_heat(
        x.double(), graph.edge_index, conducted,
        torch.tensor(t, dtype=torch.float64), normalization, float(loops),
    )  # fmt: skip
    expected = expected.transpose(-3, -2).flatten(-2)
    if loops:
        expected = expected @ layer.lin.weight.double().T + layer.bias.double()
    reach, condition = reach_of(graph, torch.tensor(3.0), normalization)
    bound = 5 * allowed(x, reach, condition)
    assert distance(out, expected, (1 + x.norm()) * (3 if loops else 1)) <= bound


@draws(25)
@given(st.data())
def test_laws(data):
    """Times add up, mass is kept, the operator is its own adjoint, nodes have no order."""
    graph = data.draw(graphs(forms=["tensor"], exponents=((0, 0), (-3, 3))))
    x = data.draw(signals(graph.num_nodes, dtypes=["float64"], batches=False))
    normalization = data.draw(NORMALIZATIONS)
    weight, ei = graph.exact_weight, graph.edge_index
    reach, condition = reach_of(graph, torch.tensor(3.7), normalization)
    bound = 5 * condition * allowed(x, reach)

    def flow(signal, t, edge_index=ei, edge_weight=weight):
        return heat_diffusion(signal, edge_index, edge_weight, t, normalization=normalization)

    once = flow(x, 3.7)
    assert distance(flow(flow(x, 1.5), 2.2), once, x.norm()) <= bound
    degree = torch.zeros(graph.num_nodes, dtype=torch.float64).index_add(0, ei[1], weight)
    positive = degree > 0
    conserved = {"sym": degree.sqrt(), "rw": degree, None: torch.ones_like(degree)}[normalization]
    conserved = conserved.masked_fill(~positive, 1.0)
    conserved = conserved / conserved.max()
    before, after = (conserved[:, None] * x).sum(0), (conserved[:, None] * once).sum(0)
    assert distance(after, before, x.norm() * conserved.norm()) <= bound
    if normalization != "rw":
        other = torch.cos(x * 3.1 / x.abs().max())
        difference = (other * once).sum() - (flow(other, 3.7) * x).sum()
        assert abs(float(difference)) <= bound * float(x.norm() * other.norm())
    order = torch.randperm(graph.num_nodes)
    moved = flow(x[order], 3.7, order.argsort()[ei])
    assert distance(moved, once[order], x.norm()) <= bound
    # Two graphs side by side are what each is alone; and threads or batches change nothing.
    both = flow(
        torch.cat([x, 2 * x]), 3.7, torch.cat([ei, ei + graph.num_nodes], 1), weight.repeat(2)
    )
    assert distance(both[: len(x)], once, x.norm()) <= bound
    assert distance(both[len(x) :], 2 * once, x.norm()) <= bound
