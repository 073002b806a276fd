"""How many cases are drawn: a few in every run, as many as `JSEM_CASES` says if it is set."""

import os

from hypothesis import HealthCheck, settings

CASES = int(os.environ.get("JSEM_CASES", "0"))


def draws(few):
    """The settings of a test by hypothesis: `few` examples, the same in every run, or many."""
    return settings(
        max_examples=CASES or few,
        derandomize=not CASES,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
