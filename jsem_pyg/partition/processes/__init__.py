"""Rows of a graph on several processes and machines, by `torch.distributed`.

:func:`distribute` gives a process its :class:`DistributedGraph`. `rows.py` cuts the rows out of the
whole graph, `routes.py` lists which rows travel to which rank, `matrix.py` multiplies, and
`ranks.py` is the process group.
:func:`distributed_knn_graph` (`knn.py`) makes the graph of points that lie in several processes.
"""

from .distribute import distribute
from .gradients import sum_gradients
from .graph import DistributedGraph
from .knn import distributed_knn_graph

__all__ = [
    "DistributedGraph",
    "distribute",
    "distributed_knn_graph",
    "sum_gradients",
]
