"""The door to JAX: the same heat on the same graphs, under `jit`, `grad` and `vmap`.

Needs the extra `[jax]`. :func:`prepare_graph` sorts and checks a graph once, by the code that
torch's side uses; :func:`heat_diffusion` then is a function of arrays. A conductance that is
learned multiplies the weights: pass ``edge_weight * conductance``.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> from jsem_pyg.jax import heat_diffusion, prepare_graph
    >>> graph = prepare_graph(jnp.array([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
    >>> diffuse = jax.jit(lambda x: heat_diffusion(x, graph, t=1.0))
    >>> diffuse(jnp.eye(3)).shape
    (3, 3)
"""

try:
    import jax as _jax  # noqa: F401
except ImportError as error:
    raise ImportError(
        "Expected JAX to be installed, as jsem_pyg.jax needs it. To fix this error, run "
        "`pip install 'jsem_pyg[jax]'`."
    ) from error

from .coefficients import heat_coefficients
from .functional import heat_diffusion
from .graph import Graph, prepare_graph

__all__ = ["Graph", "heat_coefficients", "heat_diffusion", "prepare_graph"]
