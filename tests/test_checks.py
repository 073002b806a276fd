"""What is just allowed, and what just is not; messages are tested where the checks are called."""

import pytest

from jsem_pyg import _checks

TINY, HUGE = 5e-324, 1.7e308


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (_checks.check_positive, [TINY, HUGE, 1], [0, 0.0, -TINY, float("inf"), float("nan")]),
        (_checks.check_nonnegative, [0, 0.0, HUGE], [-TINY, -1, float("inf"), float("nan")]),
        (_checks.check_positive_int, [1, 2**40], [0, -1]),
        (_checks.check_nonnegative_int, [0, 2**40], [-1]),
    ],
)
def test_numbers_at_the_bounds(check, good, bad):
    for value in good:
        check("t", value)
    for value in bad:
        with pytest.raises(ValueError, match="Expected 't' to be"):
            check("t", value)
    for value in (True, "1", None):
        with pytest.raises(TypeError, match="Expected 't' to be"):
            check("t", value)
