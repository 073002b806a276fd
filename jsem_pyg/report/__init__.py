"""Writes a fitted graph as one HTML file that a browser shows, without a network.

:func:`report` reads its arguments and writes the page. `findings.py` reads what a result found,
`layout.py` places the points at each diffusion time, `content.py` collects what the scripts of the
page read, and `page.py` fills the template of `assets/` with it and with tables.
"""

from .findings import Findings
from .report import report

__all__ = ["Findings", "report"]
