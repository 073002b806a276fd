import importlib
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
from tiny_graphs import empty, ring, single_node, star, undirected

SCALES = {"one": 2.0, "scales": [0.0, 3.0], "channels": [[0.5, 1.0, 2.0], [4.0, 0.0, 1.0]]}


@pytest.mark.parametrize(
    ("normalization", "t", "dtype"),
    [
        ("sym", "one", np.float32),
        ("rw", "scales", np.float64),
        (None, "channels", np.float32),
        ("sym", "channels", np.float64),
    ],
)
def test_values_and_gradients_are_those_of_torch(normalization, t, dtype):
    case = make_case(scattered(), (2, 3), SCALES[t], dtype)
    options = {"normalization": normalization, "tol": 1e-7}
    with enable_x64(dtype is np.float64):
        assert_same(by_jax(case, **options), by_torch(case, **options))


@pytest.mark.parametrize(
    ("graph", "shape"),
    [
        (empty(), (3,)),
        (single_node(), (3,)),
        (undirected([], 4), (3,)),
        (undirected([(0, 1)], 2), (3,)),
        (ring(), (0,)),
        (ring(), (0, 3)),
    ],
)
def test_awkward_graphs(graph, shape):
    case = make_case(graph, shape, t=[1.0, 3.0])
    assert_same(by_jax(case, normalization=None), by_torch(case, normalization=None))


def test_repeated_edges_add_up():
    edge_index, num_nodes = ring()
    case = make_case((torch.cat([edge_index, edge_index[:, [0, 5]]], dim=1), num_nodes))
    weight = np.linspace(1, 2, 5, dtype=np.float32)[[*range(5), *range(5), 3, 3]]
    case = case._replace(weight=weight)
    assert_same(by_jax(case), by_torch(case))


def test_training_by_jit_on_signals_that_are_not_small():
    """Callbacks that copy their arguments wait for ever here, on a machine of few cores."""
    case = make_case(ring(2000), (64,))

    @jax.jit
    def step(x, weight, t, graph):
        def loss(x, weight, t):
            return (heat_diffusion(x, graph, weight, t, degree=12) * case.grad).sum()

        return jax.value_and_grad(loss, (0, 1, 2))(x, weight, t)

    for _ in range(3):
        value, gradients = step(*case.leaves, case.graph)
    out, *expected = by_torch(case)
    assert float(value) == pytest.approx((out * case.grad).sum(), rel=1e-3)
    np.testing.assert_allclose(gradients[2], expected[2], rtol=1e-3)
    assert_same(gradients[:2], expected[:2])


@pytest.mark.parametrize("axis", range(3))
def test_vmap_over_signals_weights_and_times(axis):
    case = make_case(star(), t=1.5)
    graph = case.graph

    def gradients(*leaves):
        def loss(x, weight, t):
            return heat_diffusion(x, graph, weight, t).sum() ** 2

        return jax.grad(loss, (0, 1, 2))(*leaves)

    many = list(case.leaves)
    many[axis] = jnp.stack([many[axis], 2 * many[axis]])
    found = jax.vmap(gradients, [0 if i == axis else None for i in range(3)])(*many)
    for place in range(2):
        alone = gradients(*(each[place] if i == axis else each for i, each in enumerate(many)))
        for one, other in zip(found, alone, strict=True):
            np.testing.assert_allclose(one[place], other, rtol=1e-4, atol=1e-4)


def test_derivatives_of_another_kind_are_refused():
    case = make_case(star())
    graph = case.graph

    def loss(scale):
        return (heat_diffusion(case.x * scale, graph, case.weight) ** 4).sum()

    with pytest.raises(ValueError, match="JVP"):
        jax.grad(jax.grad(loss))(jnp.float32(1.0))
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(loss, [1.0], [1.0])


def test_what_graphs_may_be_given_by():
    case = make_case(ring(), t=1.0)
    out = heat_diffusion(case.x, case.graph)
    tensor = torch.from_numpy(case.edge_index)
    for edge_index in (case.edge_index, case.edge_index.astype(np.int32), tensor):
        assert (heat_diffusion(case.x, edge_index) == out).all()


CASE = make_case(ring(), t=1.0)


@pytest.mark.parametrize(
    ("given", "error", "match"),
    [
        ({"x": torch.ones(5, 3)}, TypeError, r"'x' to be .* array .*torch.Tensor"),
        ({"x": CASE.x * np.float32(1e38)}, ValueError, "'x' to lie within"),
        ({"x": CASE.x[:4], "edge_index": CASE.graph}, ValueError, "'x' to have 5 nodes"),
        ({"edge_weight": np.ones(9)}, ValueError, r"'edge_weight' to have shape \[10\]"),
        ({"t": 1e5}, ValueError, "'t' to be at most"),
        ({"edge_index": jnp.ones((2, 2))}, TypeError, "'edge_index' to hold integers"),
    ],
)
def test_bad_input_is_refused(given, error, match):
    arguments = {"x": CASE.x, "edge_index": CASE.edge_index, "edge_weight": CASE.weight, **given}
    with pytest.raises(error, match=match):
        heat_diffusion(**arguments)


def test_compiled_code_checks_values_and_needs_a_prepared_graph():
    run = jax.jit(lambda t: heat_diffusion(CASE.x, CASE.graph, t=t))
    assert np.isfinite(run(1.0)).all()
    with pytest.raises(Exception, match="Expected 't' to be finite and >= 0"):
        run(-1.0)
    with pytest.raises(TypeError, match="'edge_index' to be known outside of jit"):
        jax.jit(heat_diffusion)(CASE.x, CASE.edge_index)


def test_without_jax_the_error_names_the_extra(monkeypatch):
    for name in [each for each in sys.modules if each.startswith("jsem_pyg.jax")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "jax.numpy", None)
    with pytest.raises(ImportError, match=r"needs the package 'jax'.*jsem_pyg\[jax\]"):
        importlib.import_module("jsem_pyg.jax")
