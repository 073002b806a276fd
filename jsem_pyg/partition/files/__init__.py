"""Arrays that do not fit into memory are diffused from file to file.

:func:`diffuse_file` is one loop over panels of columns. `source.py` opens the array, `flow.py` is
the heat flow of the graph, `memory.py` chooses how wide a panel may be, `pipeline.py` reads ahead
and sends panels through a device, `panels.py` keeps them in files, so that a killed run goes on.
"""

from .diffuse_file import diffuse_file

__all__ = ["diffuse_file"]
