"""Rows of a graph on several processes and machines, by `torch.distributed`.

:func:`distribute` gives a process its :class:`DistributedGraph`. `rows.py` cuts the rows out of the
whole graph, `routes.py` lists which rows travel to which rank, `matrix.py` multiplies, and
`ranks.py` is the process group.
"""

from .distribute import distribute
from .gradients import sum_gradients
from .graph import DistributedGraph

__all__ = ["DistributedGraph", "distribute", "sum_gradients"]
