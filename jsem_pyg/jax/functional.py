"""Diffuse heat of JAX arrays by one call into torch, forward and backward.

The call is a `buffer_callback`, which hands over XLA's memory as it lies. (`pure_callback` puts a
copy on the device first, and waits for it on the very thread that would make it: large signals
never returned.)
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import Array
from jax.experimental.buffer_callback import buffer_callback

from .._checks import check_num_nodes
from ..diffusion import heat_diffusion as heat_by_torch
from ..diffusion.options import HeatOptions
from ..diffusion.times import shape_times
from ..graph import GraphStructure

jax.tree_util.register_static(GraphStructure)


def heat_diffusion(
    x: Any,
    edge_index: Any,
    edge_weight: Any = None,
    t: Any = 1.0,
    *,
    degree: int | None = None,
    tol: float = 1e-6,
    normalization: str | None = "sym",
) -> Array:
    r"""Diffuse a signal on a weighted graph for the time t, in JAX.

    .. math::
        \mathbf{Y} = e^{-t \mathbf{L}} \mathbf{X}

    by :func:`jsem_pyg.diffusion.heat_diffusion`, with its numbers and gradients. `jit`, `vmap` and
    `grad` work in `x`, `edge_weight` and `t`. An isolated node keeps its features.

    The call leaves compiled code for the CPU. The backward pass computes the forward pass again, so
    only the arguments are kept between the two. There are no second derivatives.

    Args:
        x: [..., N, D] signals; leading dimensions are batches on the same graph, which is faster
            than `vmap`. float64 needs ``jax.config.update("jax_enable_x64", True)``.
        edge_index: the graph: a :class:`~jsem_pyg.graph.GraphStructure`, sorted and checked once;
            or, outside of `jit`, [2, E] integers with both directions of every edge, which are
            sorted and checked in every call.
        edge_weight: [E] non-negative weights in the order of the graph's edges, the same in both
            directions; times a conductance, where one is learned. None: ones.
        t: diffusion time >= 0: a number, [S] scales, or [S, D] with a time for every scale and
            channel.
        degree: K, the number of products with S. None: the smallest that `tol` allows.
        tol: the relative error allowed.
        normalization: as in :func:`jsem_pyg.diffusion.heat_diffusion`.

    Returns:
        An array like `x`; [..., S, N, D] if `t` has scales.

    Example:
        >>> edges = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
        >>> y = heat_diffusion(jnp.array([[1.0], [0.0], [0.0]]), edges, normalization=None)
        >>> round(float(y.sum()), 5)  # heat is conserved
        1.0
    """
    options = HeatOptions(degree, tol, normalization)
    x = _floats("x", x)
    if x.ndim < 2:
        raise ValueError(f"Expected 'x' to have shape [..., N, D] (got {list(x.shape)}).")
    if jax.default_backend() != "cpu":
        raise ValueError(f"Expected JAX to compute on the CPU (got {jax.default_backend()!r}).")
    graph = edge_index
    if not isinstance(graph, GraphStructure):
        graph = GraphStructure(_as_torch(edge_index), x.shape[-2])
    check_num_nodes(graph.num_nodes, x.shape[-2])
    dtype = jnp.promote_types(x.dtype, jnp.float32)
    weight = jnp.ones(graph.num_edges)
    if edge_weight is not None:
        weight = _floats("edge_weight", edge_weight)
    if weight.shape != (graph.num_edges,):
        raise ValueError(
            f"Expected 'edge_weight' to have shape [{graph.num_edges}], one entry for each column "
            f"of 'edge_index' (got {list(weight.shape)})."
        )
    times = jnp.asarray(t, float)
    scales = shape_times(torch.zeros(times.shape), x.shape[-1]).shape[:1]  # checks the shape
    shape = (*x.shape[:-2], *(() if times.ndim == 0 else scales), *x.shape[-2:])
    leaves = x.astype(dtype), weight.astype(dtype), times
    if any(isinstance(each, jax.core.Tracer) for each in leaves):
        out = _diffuse(graph, options, shape, *leaves)
    else:  # nothing to compile or differentiate
        with torch.no_grad():
            out = jnp.asarray(_by_torch(graph, options, *map(_tensor, leaves)).numpy())
    return out.astype(x.dtype)


def _floats(name: str, value: Any) -> Array:
    """Read a floating-point array."""
    if not isinstance(value, Array | np.ndarray) or not jnp.issubdtype(value.dtype, jnp.floating):
        got = getattr(value, "dtype", "") if isinstance(value, Array | np.ndarray) else type(value)
        raise TypeError(f"Expected '{name}' to be a float array of JAX or NumPy (got {got}).")
    return jnp.asarray(value)


def _as_torch(edge_index: Any) -> Any:
    if isinstance(edge_index, jax.core.Tracer):
        raise TypeError(
            "Expected 'edge_index' to be known outside of jit, vmap and grad (got a traced array). "
            "To fix this, pass a jsem_pyg.graph.GraphStructure."
        )
    if isinstance(edge_index, Array | np.ndarray):
        entries = np.array(edge_index)  # a copy: arrays of JAX must not be written to
        if entries.dtype.kind not in "iu":
            raise TypeError(f"Expected 'edge_index' to hold integers (got {entries.dtype}).")
        return torch.from_numpy(entries.astype(np.int64))
    return edge_index


@partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def _diffuse(
    graph: GraphStructure, options: HeatOptions, shape: tuple[int, ...], *leaves: Array
) -> Array:
    """Diffuse x for times t along weights, `leaves` = (x, weight, t); the result has this shape."""

    def compute(context: Any, out: Any, *buffers: Any) -> None:
        with torch.no_grad():
            _write(out, _by_torch(graph, options, *map(_tensor, buffers)))

    result = jax.ShapeDtypeStruct(shape, leaves[0].dtype)
    return buffer_callback(compute, result, vmap_method="sequential")(*leaves)


def _forward(
    graph: GraphStructure, options: HeatOptions, shape: tuple[int, ...], *leaves: Array
) -> tuple[Array, tuple[Array, ...]]:
    return _diffuse(graph, options, shape, *leaves), leaves


def _backward(
    graph: GraphStructure, options: HeatOptions, shape: tuple[int, ...], leaves: Any, grad: Array
) -> Any:
    def compute(context: Any, out: Any, *buffers: Any) -> None:
        *inputs, upstream = map(_tensor, buffers)
        with torch.enable_grad():
            inputs = [each.requires_grad_() for each in inputs]
            found = torch.autograd.grad(
                _by_torch(graph, options, *inputs), inputs, upstream, materialize_grads=True
            )
        for place, each in zip(out, found, strict=True):
            _write(place, each)

    shapes = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in leaves]
    return tuple(buffer_callback(compute, shapes, vmap_method="sequential")(*leaves, grad))


_diffuse.defvjp(_forward, _backward)


def _by_torch(graph: GraphStructure, options: HeatOptions, x: Any, weight: Any, t: Any) -> Any:
    degree, tol, normalization = options.degree, options.tol, options.normalization
    return heat_by_torch(x, graph, weight, t, degree=degree, tol=tol, normalization=normalization)


def _tensor(buffer: Any) -> torch.Tensor:
    return torch.from_dlpack(buffer)


def _write(buffer: Any, value: torch.Tensor) -> None:
    np.asarray(buffer)[...] = value.numpy()
