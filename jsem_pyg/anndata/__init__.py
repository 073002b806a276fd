"""Adapt to AnnData: heat, clusters, labels and alignment of cells.

Functions read what scanpy wrote (neighbours in `obsp`, principal components in `obsm`), and write
the usual keys of scverse: with ``copy=False`` into the object itself, and return None; with
``copy=True`` into a copy, which they return. They keep their arguments in `uns`. A view becomes an
object of its own when it is written to, as everywhere in AnnData. Of a file in backed mode, `X` is
read where it is needed, and results stay in memory. Cells count by their position, so repeated
names of cells do no harm.

Needs the extra `[anndata]`. The mathematics is in :mod:`jsem_pyg.diffusion`,
:mod:`jsem_pyg.estimators` and :mod:`jsem_pyg.transport`.
"""

from .align import align
from .classes import cluster, propagate_labels
from .heat import heat

__all__ = ["align", "cluster", "heat", "propagate_labels"]
