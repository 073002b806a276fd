"""Rows of a graph on several processes and machines, by `torch.distributed`.

:func:`distribute` gives a process its :class:`DistributedGraph`. `rows.py` cuts the rows out of the
whole graph, `routes.py` lists which rows travel to which rank, `matrix.py` multiplies, and
`ranks.py` is the process group.
"""

from .distribute import distribute
from .graph import DistributedGraph
from .ranks import sum_gradients

__all__ = ["DistributedGraph", "distribute", "sum_gradients"]
