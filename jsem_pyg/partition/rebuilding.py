"""Whether a smaller graph pays for being sorted, checked and ordered anew."""

from .._checks import check_nonnegative_int

# An epoch visits every edge, term and column once forward, and about twice backward: the recurrence
# that runs back, and the gradient of the edge's value.
PASSES = 3
# What it takes to sort, check and order an edge of a new structure, in such visits: 170 to 300 were
# measured at 10^4 and 10^5 nodes with reverse Cuthill-McKee; by METIS an order takes more.
PREPARING = 500


def rebuild_pays(
    num_edges: int, num_kept: int, *, channels: int, terms: int, epochs_left: int
) -> bool:
    """Whether a graph that lost edges is worth preparing anew, for the epochs that are left.

    Counted are visits of an edge for one term and one column. Without the edges that go, an epoch
    saves ``3 * channels * terms`` visits for each; a new structure costs as much as 500 visits for
    each edge that stays. Counts, not seconds: a run that is resumed decides as it did before.

    Args:
        num_edges: Edges that the structure has.
        num_kept: Edges that would stay.
        channels: Columns that diffuse.
        terms: Products with the operator in one forward pass.
        epochs_left: Epochs that the smaller graph would be used for.

    Raises:
        TypeError: If an argument is no integer.
        ValueError: If one is negative, or if more edges would stay than there are.

    Example:
        >>> rebuild_pays(1_000_000, 900_000, channels=64, terms=15, epochs_left=1)
        False
        >>> rebuild_pays(1_000_000, 900_000, channels=64, terms=15, epochs_left=50)
        True
    """
    check_nonnegative_int("num_edges", num_edges)
    check_nonnegative_int("num_kept", num_kept)
    check_nonnegative_int("channels", channels)
    check_nonnegative_int("terms", terms)
    check_nonnegative_int("epochs_left", epochs_left)
    if num_kept > num_edges:
        raise ValueError(
            f"Expected 'num_kept' to be at most 'num_edges', {num_edges} (got {num_kept})."
        )
    saved = (num_edges - num_kept) * PASSES * channels * terms * epochs_left
    return saved > PREPARING * num_kept
