"""Interpolates signals: values at a few nodes -> a mean and a deviation at every node.

`interpolation.py` reads what is asked; `kernel.py` computes covariances, functions of a Laplacian;
`likelihood.py` says how likely these make the values, and finds the most likely one; `condition.py`
averages over the likely ones, given the values.
"""

from .interpolation import interpolate

__all__ = ["interpolate"]
