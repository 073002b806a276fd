"""Rows of a graph on several processes and machines, by `torch.distributed`.

:func:`distribute` and :func:`load_part` give a process its :class:`DistributedGraph`. How it works:
`record.py` cuts the rows out of the whole, `halo.py` knows which rows travel to whom, `matrix.py`
multiplies while they do, and `ranks.py` holds the processes together, and names those that are
missing. `saving.py` keeps the parts in a folder. `columns.py` is the other way to share the work,
and :func:`plan` predicts what either would hold, send and take.
"""

from .columns import ColumnShare
from .distribute import distribute
from .gradients import sum_gradients
from .graph import DistributedGraph
from .plan import DistributionPlan, plan
from .saving import load_part, save_parts
from .speed import Speed, measure_speed

__all__ = [
    "ColumnShare",
    "DistributedGraph",
    "DistributionPlan",
    "Speed",
    "distribute",
    "load_part",
    "measure_speed",
    "plan",
    "save_parts",
    "sum_gradients",
]
