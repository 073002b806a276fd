"""Torch and JAX on the same graph; skips what imports it where JAX is missing."""

from typing import NamedTuple

import numpy as np
import pytest
import torch

# Not "jax" alone, for which tests/jax would do as a namespace.
jnp = pytest.importorskip("jax.numpy", reason="needs the extra [jax]")
jax = pytest.importorskip("jax")
experimental = pytest.importorskip("jax.experimental")

enable_x64 = (jax if hasattr(jax, "enable_x64") else experimental).enable_x64  # since JAX 0.8
jax.config.update("jax_disable_most_optimizations", True)  # compiling is what takes time here

from laws import random_graph  # noqa: E402

from jsem_pyg.diffusion import heat_diffusion as torch_heat_diffusion  # noqa: E402
from jsem_pyg.graph import GraphStructure  # noqa: E402
from jsem_pyg.jax import heat_diffusion  # noqa: E402


class Case(NamedTuple):
    """Arrays of NumPy: a signal, a graph, times, and the gradient that comes back."""

    x: np.ndarray
    edge_index: np.ndarray
    weight: np.ndarray
    t: np.ndarray
    grad: np.ndarray

    @property
    def graph(self):
        return GraphStructure(torch.from_numpy(self.edge_index), self.x.shape[-2])

    @property
    def leaves(self):
        return tuple(map(jnp.asarray, (self.x, self.weight, self.t)))


def make_case(graph, shape=(3,), t=2.0, dtype=np.float32, seed=0):
    """`graph`: edge_index and the number of nodes; `shape`: batches and channels."""
    edge_index, num_nodes = graph
    generator = np.random.default_rng(seed)
    *batch, channels = shape
    x = generator.normal(size=(*batch, num_nodes, channels)).astype(dtype)
    t = np.asarray(t, dtype)
    scales = t.shape[:1]
    grad = generator.normal(size=(*batch, *scales, num_nodes, channels)).astype(dtype)
    weight = 0.1 + generator.random(edge_index.size(1) // 2).astype(dtype)
    if edge_index.size(1):  # alike in both directions
        order = np.lexsort(np.sort(edge_index.numpy(), axis=0))
        weight = np.repeat(weight, 2)[np.argsort(order)]
    return Case(x, edge_index.numpy(), weight, t, grad)


def scattered(num_nodes=14, seed=0):
    """Several parts, one of them a node without edges."""
    return random_graph(num_nodes, 0.15, 1, seed=seed)[0], num_nodes


def by_torch(case, **options):
    """The result, and its gradients in x, the weights and t."""
    leaves = [torch.tensor(each, requires_grad=True) for each in (case.x, case.weight, case.t)]
    x, weight, t = leaves
    out = torch_heat_diffusion(x, torch.from_numpy(case.edge_index), weight, t, **options)
    gradients = torch.autograd.grad(out, leaves, torch.from_numpy(case.grad), allow_unused=True)
    known = [
        torch.zeros_like(leaf) if each is None else each
        for leaf, each in zip(leaves, gradients, strict=True)
    ]
    return [each.detach().numpy() for each in (out, *known)]


def by_jax(case, **options):
    graph = case.graph

    def run(x, weight, t):
        return heat_diffusion(x, graph, weight, t, **options)

    out, pull = jax.vjp(run, *case.leaves)
    return [np.asarray(each) for each in (out, *pull(jnp.asarray(case.grad)))]


def assert_same(actual, expected):
    for one, other in zip(actual, expected, strict=True):
        tol = 2e-5 if other.dtype == np.float32 else 1e-7
        assert one.dtype == other.dtype
        np.testing.assert_allclose(
            one, other, rtol=tol, atol=tol * (1 + np.abs(other).max(initial=0))
        )
