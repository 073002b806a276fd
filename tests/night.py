"""Cases that repeat what others of the same test show: tried in the long run only."""

import pytest


def night(*cases):
    """`cases` for `pytest.mark.parametrize`, marked slow; a tuple is one case of several values."""
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for case in cases
    ]
