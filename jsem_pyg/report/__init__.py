"""A fitted graph -> one HTML file that a browser shows, with or without a network.

:func:`report` writes it: the points on a map, at diffusion times from raw to the chosen one, and
beside it what is needed to judge and repeat the run. `findings.py` reads what a result found,
`layout.py` places the points, `groups.py` names clusters and labels, `edges.py` sorts edges and
counts them for histograms, `tables.py` makes texts of scores, settings and versions. `content.py`
gathers it all, `payload.py` packs it for the scripts, and `page.py` fills the template of
`assets/`, where the page's own HTML, CSS and JavaScript lie.
"""

from .findings import Findings
from .report import report

__all__ = ["Findings", "report"]
