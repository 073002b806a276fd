"""Everything else that computes numbers of graphs, hypergraphs and points, against plain loops."""

from itertools import combinations

import pytest
import torch
from hypergraph_cases import METHODS, hypergraph_diffusion, random_hypergraph
from hypothesis import given
from hypothesis import strategies as st
from simplicial_cases import cliques, dense_parts, simplicial_diffusion
from trust.draws import LAYOUTS, SEEDS, edge_lists, generator, hand_over, lay_out, signals
from trust.oracle import distance, heat, hypergraph_heat
from trust.settings import draws

from jsem_pyg.evaluation import dirichlet_energy, modularity, partition_scores
from jsem_pyg.neighbors import knn_graph, knn_search

FORMS = ["tensor", "int32", "transposed", "sliced", "strided"]


@st.composite
def simple_graphs(draw):
    """(what is handed over, edge_index [2, E], symmetric weights [E], N), every edge once."""
    edge_index, num_once, order, num_nodes, g = draw(edge_lists(most_nodes=12, repeats=False))
    exponent = draw(st.sampled_from([0, 0, 3, -20, 25]))
    once = (0.1 + torch.rand(num_once, generator=g, dtype=torch.float64)) * 10.0**exponent
    weight = torch.cat([once, once])[order]
    form = draw(st.sampled_from(FORMS))
    given = hand_over(edge_index, None, num_nodes, form).given
    return given, edge_index, lay_out(weight, draw(st.sampled_from(LAYOUTS))), num_nodes


@draws(25)
@given(simple_graphs(), SEEDS, st.sampled_from(["sym", None]))
def test_evaluation(graph, seed, normalization):
    edges, edge_index, weight, num_nodes = graph
    x = torch.randn(num_nodes, 3, generator=generator(seed), dtype=torch.float64)
    y = torch.randint(3, (num_nodes,), generator=generator(seed))
    total = float(weight.sum())
    degree = [float(weight[edge_index[0] == i].sum()) for i in range(num_nodes)]
    energy, inside = 0.0, 0.0
    for i, j, w in zip(*edge_index.tolist(), weight.tolist(), strict=True):
        roots = (1.0, 1.0) if normalization is None else (degree[i] ** 0.5, degree[j] ** 0.5)
        energy += w / 2 * float((x[i] / roots[0] - x[j] / roots[1]).square().sum())
        inside += w * bool(y[i] == y[j])
    actual = dirichlet_energy(x, edges, weight, normalization)
    assert float(actual) == pytest.approx(energy, rel=1e-10)
    if total:
        shares = [
            sum(d for d, c in zip(degree, y, strict=True) if c == k) / total for k in range(3)
        ]
        expected = inside / total - sum(share**2 for share in shares)
        assert modularity(edges, weight, y) == pytest.approx(expected, abs=1e-12)
    clusters = torch.randint(4, (num_nodes,), generator=generator(seed + 1))
    pairs = list(combinations(range(num_nodes), 2))
    scores = partition_scores(clusters, y)
    assert 0 <= scores.nmi <= 1 + 1e-12
    assert 1 / num_nodes <= scores.acc <= 1
    if pairs:
        both = sum(bool(clusters[i] == clusters[j]) and bool(y[i] == y[j]) for i, j in pairs)
        one = sum(bool(clusters[i] == clusters[j]) for i, j in pairs)
        other = sum(bool(y[i] == y[j]) for i, j in pairs)
        chance = one * other / len(pairs)
        span = (one + other) / 2 - chance
        assert scores.ari == pytest.approx((both - chance) / span if span else 1.0, abs=1e-9)


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
    method = data.draw(st.sampled_from(METHODS))
    backend = data.draw(st.sampled_from(["auto", "torch", "reference"]))
    t = data.draw(st.sampled_from([0.0, 1e-6, 0.7, 5.0, 300.0, 1e4]))
    form = data.draw(st.sampled_from(FORMS))
    given = lay_out(index.int() if form == "int32" else index, form)
    leaf_x, leaf_w = x.detach().requires_grad_(), weight.clone().requires_grad_()
    time = torch.tensor(t, dtype=torch.float64, requires_grad=True)
    out = hypergraph_diffusion(
        leaf_x, given, leaf_w, time, num_hyperedges=num_hyperedges,
        normalization=normalization, method=method, backend=backend,
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


@draws(20)
@given(st.data())
def test_simplicial_diffusion(data):
    edge_index, num_once, _, num_nodes, g = data.draw(edge_lists(most_nodes=8, repeats=False))
    edge_index = edge_index[:, edge_index[0] < edge_index[1]]
    flip = torch.rand(num_once, generator=g) < 0.5
    edge_index = torch.where(flip, edge_index.flip(0), edge_index)
    weight = 0.2 + torch.rand(num_once, generator=g, dtype=torch.float64)
    faces = 0.2 + torch.rand(cliques(edge_index).size(1), generator=g, dtype=torch.float64)
    x = torch.randn(num_once, 2, generator=g, dtype=torch.float64)
    how = data.draw(st.sampled_from([None, "sym", "rw"]))
    t, t_up = (data.draw(st.sampled_from([0.0, 1e-6, 0.8, 3.0, 60.0])) for _ in range(2))
    dtype = getattr(torch, data.draw(st.sampled_from(["float32", "float64"])))
    backend = data.draw(st.sampled_from(["auto", "torch", "reference"]))
    form = data.draw(st.sampled_from(["tensor", "transposed", "sliced", "strided"]))
    out = simplicial_diffusion(
        x.to(dtype), lay_out(edge_index, form), None, weight.to(dtype), faces.to(dtype), t, t_up,
        normalization=how, backend=backend,
    )  # fmt: skip
    down, up = dense_parts(
        edge_index, num_nodes, None, weight, faces, "sym" if how == "rw" else how
    )
    root = weight.sqrt()[:, None] if how == "rw" else torch.ones(num_once, 1).double()
    signal = x / root
    # Both parts commute, so one flow follows the other.
    for part, time in ((down, t), (up, t_up)):
        signal = heat(part, signal, torch.tensor(time, dtype=torch.float64))
    assert distance(out, root * signal, x.norm()) <= 30 * torch.finfo(dtype).eps + 3e-6


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
