"""The adapter to JAX: the same heat on the same graphs, under `jit`, `grad` and `vmap`.

Needs the extra `[jax]`. :func:`heat_diffusion` is a function of arrays; it calls torch's kernels on
the CPU. A :class:`~jsem_pyg.graph.GraphStructure`, which sorts and checks a graph once, passes
through all transforms as a static argument. A conductance that is learned multiplies the weights:
pass ``edge_weight * conductance``.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> import torch
    >>> from jsem_pyg.graph import GraphStructure
    >>> from jsem_pyg.jax import heat_diffusion
    >>> graph = GraphStructure(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
    >>> jax.jit(heat_diffusion)(jnp.eye(3), graph).shape
    (3, 3)
"""

from .._extras import import_optional

import_optional("jax.numpy", "jsem_pyg.jax")

from .functional import heat_diffusion  # noqa: E402

__all__ = ["heat_diffusion"]
