"""Arrays that do not fit into memory are diffused from file to file.

:func:`diffuse_file` opens the array (`source.py`), makes the heat flow of the graph
(`column_flow.py`), measures how many columns fit into memory (`memory.py`), and works on files
(`panel_file.py`) in the folder of a `partial_result.py`, whose journal lets a run go on.
"""

from .diffuse_file import diffuse_file

__all__ = ["diffuse_file"]
