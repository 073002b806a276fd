"""Everything else that computes numbers of graphs, hypergraphs and points, against plain loops."""

import torch
from hypergraph_cases import WAYS, hypergraph_diffusion, random_hypergraph
from hypothesis import given
from hypothesis import strategies as st
from trust.draws import SEEDS, generator, lay_out, signals
from trust.oracle import distance, hypergraph_heat
from trust.settings import draws

from jsem_pyg.neighbors import knn_graph, knn_search

FORMS = ["tensor", "int32", "transposed", "sliced", "strided"]


@draws(30)
@given(st.data())
def test_hypergraph_diffusion(data):
    num_nodes, num_hyperedges = data.draw(st.integers(1, 9)), data.draw(st.integers(0, 7))
    seed = data.draw(SEEDS)
    index = random_hypergraph(num_nodes, num_hyperedges, 0.4, num_nodes // 4, seed)
    if data.draw(st.booleans()):
        index = torch.cat([index, index[:, ::2]], dim=1)
    exponent = data.draw(st.sampled_from([0, -28, 25]))
    weight = (0.1 + torch.rand(num_hyperedges, generator=generator(seed))) * 10.0**exponent
    weight[torch.rand(num_hyperedges, generator=generator(seed + 1)) < 0.2] = 0.0
    weight = weight.to(getattr(torch, data.draw(st.sampled_from(["float32", "float64"]))))
    x = data.draw(signals(num_nodes))
    normalization = data.draw(st.sampled_from(["sym", "rw"]))
    by_kernel = data.draw(st.sampled_from(WAYS))
    backend = data.draw(st.sampled_from(["auto", "torch", "reference"]))
    t = data.draw(st.sampled_from([0.0, 1e-6, 0.7, 5.0, 300.0, 1e4]))
    form = data.draw(st.sampled_from(FORMS))
    given = lay_out(index.int() if form == "int32" else index, form)
    leaf_x, leaf_w = x.detach().requires_grad_(), weight.clone().requires_grad_()
    time = torch.tensor(t, dtype=torch.float64, requires_grad=True)
    out = hypergraph_diffusion(
        leaf_x, given, leaf_w, time, num_hyperedges=num_hyperedges,
        normalization=normalization, by_kernel=by_kernel, backend=backend,
    )  # fmt: skip
    exact_x = x.detach().double().requires_grad_()
    exact_w = weight.double().requires_grad_()
    exact_t = torch.tensor(t, dtype=torch.float64, requires_grad=True)
    expected = hypergraph_heat(exact_x, index, exact_w, exact_t, normalization)
    spread = 30.0 if normalization == "rw" else 1.0
    eps = torch.finfo(x.dtype).eps
    bound = spread * (4 * eps + 1.2e-6)
    assert out.dtype == x.dtype
    assert distance(out, expected, x.double().norm()) <= bound
    direction = torch.sin(torch.arange(out.numel(), dtype=torch.float64)).reshape(out.shape)
    out.backward(direction.to(out.dtype))
    expected.backward(direction)
    scale = direction.norm() * x.double().norm()
    assert distance(leaf_x.grad, exact_x.grad, direction.norm()) <= 30 * bound
    assert distance(time.grad, exact_t.grad, scale) <= 30 * bound
    if leaf_w.grad.isfinite().all() and weight.numel():
        relative = leaf_w.grad.double() * weight.double(), exact_w.grad * weight.double()
        # Smaller gradients are smaller than the type's smallest numbers.
        tiniest = float(weight.max()) * torch.finfo(weight.dtype).tiny / bound
        assert distance(*relative, max(scale, tiniest)) <= 30 * bound * (1 + t)


@draws(25)
@given(st.data())
def test_neighbours(data):
    num_points, channels = data.draw(st.integers(2, 30)), data.draw(st.integers(1, 5))
    g = generator(data.draw(SEEDS))
    x = torch.randn(num_points, channels, generator=g, dtype=torch.float64)
    if data.draw(st.booleans()):
        x[::3] = x[0].clone()  # duplicates
    scale = data.draw(st.sampled_from([1.0, 1e-14, 1e14]))
    x = lay_out(scale * x, data.draw(st.sampled_from(["contiguous", "transposed", "sliced"])))
    k = data.draw(st.integers(1, num_points - 1))
    metric = data.draw(st.sampled_from(["l2", "cosine"]))
    neighbor, found = knn_search(x, k, metric)
    if metric == "l2":
        pair = (x[:, None] - x[None, :]).norm(dim=-1) / scale
        found = found / scale
    else:
        unit = x / x.norm(dim=1, keepdim=True)
        pair = (1 - unit @ unit.T).clamp(0, 2)
    pair.fill_diagonal_(torch.inf)
    expected = pair.sort(dim=1).values[:, :k]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    chosen = pair.gather(1, neighbor)
    torch.testing.assert_close(chosen, expected, rtol=1e-5, atol=1e-6)
    assert all(len(set(row)) == k for row in neighbor.tolist())
    edge_index, weight = knn_graph(x, k, metric)
    dense = torch.zeros(num_points, num_points, dtype=weight.dtype)
    dense[tuple(edge_index)] = weight
    assert torch.equal(dense, dense.T)
    assert weight.min() > 0
    assert weight.max() <= 1
    assert (dense[torch.arange(num_points)[:, None], neighbor] > 0).all()
