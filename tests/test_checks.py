"""What is just allowed, and what just is not; messages are tested where the checks are called."""

import pytest

from jsem_pyg import _checks

TINY, HUGE = 5e-324, 1.7e308
BEYOND = [float("inf"), float("nan")]


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (_checks.check_positive, [TINY, HUGE, 1], [0, 0.0, -TINY, *BEYOND]),
        (_checks.check_nonnegative, [0, 0.0, HUGE], [-TINY, -1, -(10**400), *BEYOND]),
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


def test_errors_about_a_part_are_about_the_argument():
    about = _checks.as_argument
    with (
        pytest.raises(TypeError, match=r"^Expected 'target\[0\]' to be 'x', or 'sources'$"),
        about("target", "source", "edge_index"),
    ):
        raise TypeError("Expected 'source[0]' to be 'x', or 'sources'")
    with (
        pytest.raises(ValueError, match="'target.x' is not 'target'."),
        about("target", "source", "edge_index"),
    ):
        raise ValueError("'source.x' is not 'edge_index'.")
    other = ValueError("Expected 'x'")
    with pytest.raises(ValueError, match="Expected 'x'") as caught, about("t", "s"):
        raise other
    assert caught.value is other
