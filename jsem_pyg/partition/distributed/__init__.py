"""Rows of a graph on several processes, by `torch.distributed`."""

from .distribute import distribute
from .graph import DistributedGraph
from .gradients import sum_gradients

__all__ = ["DistributedGraph", "distribute", "sum_gradients"]
