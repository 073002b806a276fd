"""Adapt to AnnData: heat, clusters, labels and alignment of cells.

Functions read what scanpy wrote (neighbours in `obsp`, principal components in `obsm`), and write
the usual keys of scverse: with ``copy=False`` into the object itself, and return None; with
``copy=True`` into a copy, which they return. They keep their arguments in `uns`. Files in backed
mode are read into memory first: `adata.to_memory()`. Needs the extra `[anndata]`.
"""

from .align import align
from .classes import cluster, propagate_labels
from .heat import heat

__all__ = ["align", "cluster", "heat", "propagate_labels"]
