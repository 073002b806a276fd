import importlib
import logging
import sys

import numpy as np
import pytest
import torch
from jax_cases import (
    assert_same,
    by_jax,
    by_torch,
    enable_x64,
    heat_diffusion,
    jax,
    jnp,
    make_case,
    scattered,
)
from tiny_graphs import empty, ring, single_node, star, triangle_with_tail, undirected

from jsem_pyg.jax import prepare_graph

SLOW = pytest.mark.slow  # what XLA takes a second and more to compile
BACKENDS = ["xla", "numba"]
NORMALIZATIONS = ["sym", "rw", None]
SCALES = {"one": 2.0, "scales": [0.0, 3.0], "channels": [[0.5, 1.0, 2.0], [4.0, 0.0, 1.0]]}


@pytest.mark.parametrize(
    ("backend", "normalization", "t"),
    [
        pytest.param("xla", "sym", "one", marks=SLOW),
        ("xla", None, "channels"),
        ("numba", "rw", "scales"),
    ],
)
def test_values_and_gradients_are_those_of_torch(backend, normalization, t):
    case = make_case(scattered(), t=SCALES[t])
    options = {"normalization": normalization}
    assert_same(by_jax(case, backend=backend, **options), by_torch(case, **options))


@SLOW
@pytest.mark.parametrize("t", SCALES)
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_way_gives_the_numbers_of_torch(backend, normalization, t):
    case = make_case(scattered(), (2, 3), SCALES[t], np.float64)
    with enable_x64(True):
        actual = by_jax(case, backend=backend, normalization=normalization, tol=1e-10)
    assert_same(actual, by_torch(case, normalization=normalization, tol=1e-10))


AWKWARD = {
    "no node": (empty(), (3,)),
    "one node": (single_node(), (3,)),
    "no edges": (undirected([], 4), (3,)),
    "one edge": (undirected([(0, 1)], 2), (3,)),
    "no channel": (ring(), (0,)),
    "no batch": (ring(), (0, 3)),
}


@pytest.mark.parametrize("name", ["one node", "no edges"])
def test_awkward_graphs(name):
    case = make_case(*AWKWARD[name])
    assert_same(by_jax(case), by_torch(case))


@SLOW
@pytest.mark.parametrize("normalization", ["rw", None])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", AWKWARD)
def test_awkward_graphs_by_every_way(name, backend, normalization):
    case = make_case(*AWKWARD[name], t=[1.0, 3.0])
    options = {"normalization": normalization}
    assert_same(by_jax(case, backend=backend, **options), by_torch(case, **options))


def test_training_by_jit_on_signals_that_are_not_small():
    """Callbacks that copy their arguments wait for ever here, on a machine of few cores."""
    case = make_case(ring(2000), (64,))
    graph = case.graph

    @jax.jit
    def step(x, weight, t, graph):
        def loss(x, weight, t):
            out = heat_diffusion(x, graph, weight, t, degree=12)
            return (out * case.grad).sum()

        return jax.value_and_grad(loss, (0, 1, 2))(x, weight, t)

    for _ in range(3):
        value, gradients = step(*case.leaves, graph)
    out, *expected = by_torch(case)
    assert float(value) == pytest.approx((out * case.grad).sum(), rel=1e-3)
    np.testing.assert_allclose(gradients[2], expected[2], rtol=1e-3)
    assert_same(gradients[:2], expected[:2])


def rows(leaves, axis, size=2):
    """The leaf `axis` several times, scaled; and how vmap maps."""
    many = jnp.stack([leaves[axis] * (1 + i) for i in range(size)])
    return [*leaves[:axis], many, *leaves[axis + 1 :]], [0 if i == axis else None for i in range(3)]


def test_gradients_reach_weights_that_are_close_to_zero():
    with enable_x64():
        x = jnp.array([[3.0], [1.0]])

        def energy(weight):
            graph = jnp.array([[0, 1], [1, 0]])
            y = heat_diffusion(x, graph, weight, normalization=None, backend="xla")
            return (x * y).sum()

        np.testing.assert_allclose(jax.grad(energy)(jnp.full(2, 1e-10)), [-2.0, -2.0], rtol=1e-4)


def test_a_degree_of_zero_leaves_one_term():
    case = make_case(ring(5))
    assert_same(by_jax(case, backend="xla", degree=0), by_torch(case, degree=0))


@pytest.mark.parametrize("edges", [[[], []], [[0, 1], [1, 0]]])
def test_every_degree_is_high_enough_where_nothing_flows(edges):
    graph = prepare_graph(np.array(edges, dtype=np.int64), 3)
    x, weight = jnp.arange(6.0).reshape(3, 2), jnp.zeros(graph.num_edges)

    def flow(weight):
        return heat_diffusion(x, graph, weight, 50.0, degree=2, normalization=None)

    np.testing.assert_allclose(jax.jit(flow)(weight), x, rtol=1e-6)
    by_weight = jax.jit(jax.grad(lambda weight: flow(weight)[0, 0]))(weight)
    np.testing.assert_allclose(by_weight, [50.0, 50.0][: graph.num_edges], rtol=1e-4)


def test_vmap_over_weights():
    case = make_case(star(), t=1.5)
    graph, weights = case.graph, np.stack([case.weight, case.weight[::-1], 0 * case.weight])

    def run(weight):
        return heat_diffusion(case.x, graph, weight, 1.5)

    out = jax.vmap(run)(jnp.asarray(weights))
    for one, weight in zip(out, weights, strict=True):
        np.testing.assert_allclose(one, run(weight), atol=1e-6)


@SLOW
@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_under_vmap_over_signals_weights_and_times(axis, backend):
    case = make_case(star(), t=1.5)
    graph = case.graph

    def gradients(x, weight, t):
        def loss(x, weight, t):
            return heat_diffusion(x, graph, weight, t, degree=12, backend=backend).sum() ** 2

        return jax.grad(loss, (0, 1, 2))(x, weight, t)

    many, how = rows(case.leaves, axis)
    found = jax.vmap(gradients, how)(*many)
    for i in range(2):
        alone = gradients(
            *(each[i] if on == 0 else each for each, on in zip(many, how, strict=True))
        )
        for one, other in zip(found, alone, strict=True):
            np.testing.assert_allclose(one[i], other, rtol=1e-4, atol=1e-4)


@SLOW
def test_forward_mode():
    case = make_case(triangle_with_tail(), t=1.0)
    graph = case.graph

    def run(backend):
        def of(*leaves):
            return heat_diffusion(leaves[0], graph, *leaves[1:], backend=backend)

        return jax.jvp(of, case.leaves, tangents)[1]

    tangents = tuple(jnp.full_like(leaf, 0.5) for leaf in case.leaves)
    forward = float((run("xla") * case.grad).sum())
    backward = sum(0.5 * each.sum() for each in by_torch(case)[1:])
    assert forward == pytest.approx(backward, rel=1e-4, abs=1e-4)
    with pytest.raises(TypeError, match="forward-mode"):
        run("numba")


def curvature_in_x(case, backend):
    """The derivative of |out|^4 along x, twice."""
    graph = case.graph

    def loss(scale):
        return (heat_diffusion(case.x * scale, graph, case.weight, backend=backend) ** 4).sum()

    return jax.grad(jax.grad(loss))(jnp.float32(1.0)), loss(1.0)


@SLOW
def test_second_derivatives():
    found, value = curvature_in_x(make_case(star()), "xla")
    assert float(found) == pytest.approx(12 * float(value), rel=1e-4)


def test_numba_refuses_second_derivatives():
    with pytest.raises(NotImplementedError, match=r"'backend' .* second derivatives \(got 'numba'"):
        curvature_in_x(make_case(star()), "numba")


def residuals(case, backend, degree):
    """Bytes that are kept between the passes; nothing is computed."""
    graph = case.graph

    def pull(x, weight):
        def run(x, weight):
            return heat_diffusion(x, graph, weight, 2.0, degree=degree, backend=backend)

        return jax.vjp(run, x, weight)[1]

    kept = jax.eval_shape(pull, *case.leaves[:2])
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(kept))


@pytest.mark.parametrize("backend", BACKENDS)
def test_memory_does_not_grow_with_the_number_of_terms(backend):
    case = make_case(ring(40), (16,))
    few, many = (residuals(case, backend, degree) for degree in (4, 24))
    assert many - few <= 20 * 4 * 2  # coefficients


def test_what_graphs_may_be_given_by():
    case = make_case(ring(), t=1.0)
    out = heat_diffusion(case.x, case.graph)
    tensor = torch.from_numpy(case.edge_index)
    for edge_index in (case.edge_index, case.edge_index.astype(np.int32), tensor):
        assert (heat_diffusion(case.x, edge_index) == out).all()


def bad(**given):
    case = make_case(ring(), t=1.0)
    return {"x": case.x, "edge_index": case.edge_index, "edge_weight": case.weight, **given}


ONES = np.ones(10, np.float32)
X = np.ones((5, 3), np.float32)


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        (bad(x=torch.ones(5, 3)), TypeError, r"'x' to be .* array .*torch.Tensor"),
        (bad(x=X * np.float32(1e38)), ValueError, "'x' to lie within"),
        (bad(edge_weight=np.arange(10.0)), ValueError, "'edge_weight' .*both directions"),
        (
            bad(edge_weight=ONES * np.float32(1e-42)),
            ValueError,
            "'edge_weight' to be zero, or from",
        ),
        (bad(t=[[1.0, 2.0]]), ValueError, r"'t' to be .* D = 3 \(got shape \[1, 2\]"),
        (bad(t=1e5), ValueError, "'t' to be at most"),
        (bad(edge_index=np.array([[0], [1]])), ValueError, "'edge_index' to be undirected"),
        (
            bad(x=X[:4], edge_index=make_case(ring(), t=1.0).graph),
            ValueError,
            "'x' to have 5 nodes",
        ),
        (bad(edge_index=np.array([[0.5], [1]])), TypeError, "'edge_index' to hold integers"),
    ],
)
def test_bad_input_is_refused(given, error, match):
    with pytest.raises(error, match=match):
        heat_diffusion(**given)


def test_jit_needs_a_degree_where_it_hides_times():
    case = make_case(ring(), t=1.0)
    run = jax.jit(lambda t, **options: heat_diffusion(case.x, case.graph, t=t, **options))
    with pytest.raises(ValueError, match=r"'degree' to be given where jit .* \(got None"):
        run(1.0)
    with pytest.raises(TypeError, match="'t' to hold real numbers"):
        run(1)
    weights = jax.jit(lambda w: heat_diffusion(case.x, case.graph, w, normalization=None))
    with pytest.raises(ValueError, match="'degree' to be given"):
        weights(case.weight)
    with pytest.raises(TypeError, match="'edge_index' to be known outside of jit"):
        jax.jit(heat_diffusion)(case.x, case.edge_index)


def test_a_negative_time_under_jit_is_no_number():
    case = make_case(ring(), t=1.0)
    run = jax.jit(lambda t: heat_diffusion(case.x, case.graph, t=t, degree=8))
    assert np.isfinite(run(1.0)).all()
    assert np.isnan(run(-1.0)).all()


def test_a_backend_that_cannot_run_says_why(monkeypatch):
    case = make_case(ring(), t=1.0)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    with pytest.raises(ValueError, match=r"'backend' that can run \(got 'numba': .*'gpu'"):
        heat_diffusion(case.x, case.graph, backend="numba")


def test_warnings_about_what_is_not_precise(caplog):
    case = make_case(ring(), t=1.0)
    with caplog.at_level(logging.WARNING):
        heat_diffusion(case.x, case.graph, t=100.0)
        assert "rounding in torch.float32" in caplog.text
        caplog.clear()
        heat_diffusion(case.x, case.graph, t=9.0, degree=2)
        assert "degree=2 is too low" in caplog.text


def test_without_jax_the_error_names_the_extra(monkeypatch):
    for name in [each for each in sys.modules if each.startswith("jsem_pyg.jax")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ImportError, match=r"JAX to be installed.*jsem_pyg\[jax\]"):
        importlib.import_module("jsem_pyg.jax")


def test_graphs_of_the_same_edges_share_what_is_compiled():
    one, same, other = (make_case(graph).graph for graph in (ring(), ring(), star()))
    assert jax.tree.structure(one) == jax.tree.structure(same)
    assert jax.tree.structure(one) != jax.tree.structure(other)


@SLOW
def test_graphs_of_the_same_edges_are_compiled_once():
    one, same, other = (make_case(graph).graph for graph in (ring(), ring(), star()))
    traced = []

    @jax.jit
    def run(graph):
        traced.append(graph)
        return heat_diffusion(jnp.ones((5, 1)), graph)

    for graph in (one, same, other):
        run(graph)
    assert len(traced) == 2


def test_any_time_passes_where_there_is_no_edge():
    graph, x = prepare_graph(np.empty((2, 0), np.int64), 2), np.ones((2, 1), np.float32)

    def flow(t):
        return heat_diffusion(x, graph, t=t, normalization=None, degree=5)

    for run in (flow, jax.jit(flow)):
        np.testing.assert_allclose(run(1e30), x, rtol=1e-6)


def test_gradients_in_weights_at_short_times_are_as_precise():
    """They are of the order of t: the series needs more terms than for its value."""
    case = make_case(scattered(), t=1e-3, dtype=np.float64)
    with enable_x64(True):
        found = by_jax(case, backend="xla", tol=1e-6)[2]
    expected = by_torch(case, tol=1e-12)[2]
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
