"""Checks of arguments at the doors: of values, of tensors, of graphs and their weights."""

from .graphs import *  # noqa: F403
from .tensors import *  # noqa: F403
from .values import *  # noqa: F403
