"""Filters: functions f of the Laplacian, evaluated for a signal as f(L) x.

A filter is data: a function of an eigenvalue, with parameters that may be learned. All of them are
evaluated by one Chebyshev series, whose degree follows from the tolerance
(:mod:`jsem_pyg.diffusion.filter_coefficients`), and several filters share its products
(Hammond, Vandergheynst and Gribonval 2011, "Wavelets on graphs via spectral graph theory").

`filter.py` has the base and the bank of several, `formulas.py` functions that are given, and
`learned.py` polynomials whose values are parameters.
"""

from .filter import Filter, FilterBank
from .formulas import FromFunction, Heat, LowPass, PersonalizedPageRank, Resolvent, Wavelets
from .learned import Learned

__all__ = [
    "Filter",
    "FilterBank",
    "FromFunction",
    "Heat",
    "Learned",
    "LowPass",
    "PersonalizedPageRank",
    "Resolvent",
    "Wavelets",
]
