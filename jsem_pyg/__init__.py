"""Learned anisotropic heat diffusion on graphs, for PyTorch Geometric.

The package reads in the order in which data flows through it; a stage imports only stages above it:

0. :mod:`~jsem_pyg.datasets`: documents, pictures, files of yours -> embeddings with labels
1. :mod:`~jsem_pyg.neighbors`: points -> nearest neighbours -> weighted edges
2. :mod:`~jsem_pyg.graph`: edges -> a structure that is sorted and checked once
3. :mod:`~jsem_pyg.curvature`: edges -> a few numbers an edge (Forman-Ricci curvature, overlap)
4. :mod:`~jsem_pyg.operators`: edges -> a symmetric operator S with its spectrum in [-1, 1]
5. :mod:`~jsem_pyg.diffusion`: operator and signal -> diffused signal, exp(-tL) X
6. :mod:`~jsem_pyg.partition`: a graph -> parts of it that fit a cache, a device, a machine
7. :mod:`~jsem_pyg.transport`: two graphs -> which nodes correspond
8. :mod:`~jsem_pyg.nn`: layers whose edges learn how well they conduct
9. :mod:`~jsem_pyg.evaluation`: representations -> scores
10. :mod:`~jsem_pyg.training`: model and data -> trained model and its history

After them come the adapters: :mod:`~jsem_pyg.transforms` for PyG, :mod:`~jsem_pyg.estimators` for
scikit-learn, `jsem_pyg.anndata` for cells and `jsem_pyg.jax` for JAX (extras; imported by their
names), :mod:`~jsem_pyg.report`, a page for a browser, and the command `jsem-pyg`.
`jsem_pyg.kernels`, the ways to compute it all, is private, except for the table that a backend of
your own joins. Every part is loaded where it is first used.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

__all__ = [
    "curvature",
    "datasets",
    "diffusion",
    "estimators",
    "evaluation",
    "graph",
    "neighbors",
    "nn",
    "operators",
    "partition",
    "report",
    "training",
    "transforms",
    "transport",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
