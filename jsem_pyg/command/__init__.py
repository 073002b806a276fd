"""The command `jsem-pyg` finds the clusters of documents or vectors in a file.

An adapter for those who write no code: `jsem-pyg map FILE`, `jsem-pyg predict FOLDER
FILE` and `jsem-pyg info`, or ``python -m jsem_pyg``. :func:`main` is what both call.
"""

from .._extras import import_optional

import_optional("click", "The command `jsem-pyg`")

from .program import main  # noqa: E402

__all__ = ["main"]
