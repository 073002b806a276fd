"""Arrays that do not fit into memory are diffused from file to file.

:func:`diffuse_file` is one loop over panels of columns. `panels.py` opens the array, and keeps
panels in files, so that a killed run goes on; `flow.py` is the heat flow of the graph, by which
panels pass through a device while the next are read; `memory.py` chooses how wide they may be.
"""

from .diffuse_file import diffuse_file

__all__ = ["diffuse_file"]
