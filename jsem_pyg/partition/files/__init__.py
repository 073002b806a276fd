"""Arrays that do not fit into memory are diffused from file to file.

:func:`diffuse_file` opens the array (`source.py`), makes the heat flow of the graph
(`column_flow.py`), finds out how many columns fit into memory (`panel_width.py`), and takes the
steps of `steps.py` on a `partial_result.py`, whose journal lets a run go on where it was.
"""

from .diffuse_file import diffuse_file

__all__ = ["diffuse_file"]
