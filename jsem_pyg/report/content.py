"""What the page shows: read from the arguments of a report, and packed for its scripts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from torch_geometric.data import Data

from .._checks import check_nonnegative
from ..training.training_graph import check_times
from .edges import FULL, EdgeTable, Histogram
from .findings import Findings
from .groups import Grouping, group
from .layout import times_to
from .payload import pack

SIDE = 65_535  # of the map, whose places have 16 bits: a pixel's width when 60 times enlarged


def read_texts(text: Any, num_points: int) -> list[str] | None:
    """The texts as a list, or None.

    Raises:
        TypeError: if they are no list of strings.
        ValueError: if there are not as many as points.
    """
    if text is None:
        return None
    if isinstance(text, str) or not hasattr(text, "__len__") or not hasattr(text, "__iter__"):
        raise TypeError(f"Expected 'text' to be a list of strings (got {type(text).__name__}).")
    texts = list(text)
    for index, each in enumerate(texts):
        if not isinstance(each, str):
            raise TypeError(
                f"Expected 'text' to be a list of strings (got {each!r} for point {index})."
            )
    if len(texts) != num_points:
        raise ValueError(
            f"Expected 'text' to have {num_points} entries, one for each point (got {len(texts)})."
        )
    return texts


def read_groupings(
    graph: Data, found: Findings, cluster_names: Any, label_names: Any
) -> list[Grouping]:
    """Clusters, and labels if there are any."""
    groupings = [group("cluster", found.labels, cluster_names, "cluster_names")]
    if graph.get("y") is not None:
        groupings.append(group("label", graph.y, label_names, "label_names"))
    elif label_names is not None:
        raise ValueError(
            "Expected 'label_names' to be left out for 'data' without labels y (got "
            f"{label_names!r})."
        )
    return groupings


def read_times(times: Any, t: float) -> list[float]:
    """Ascending, each once."""
    if times is None:
        return times_to(float(t))
    check_times(times, check_nonnegative)
    return sorted({float(each) for each in times})


def make_block(
    texts: list[str] | None,
    groupings: Sequence[Grouping],
    times: Sequence[float],
    places: np.ndarray,
    edges: EdgeTable,
    charts: Sequence[Histogram],
) -> str:
    """All that the scripts of the page read, see :func:`~jsem_pyg.report.payload.pack`."""
    arrays = {
        "places": _to_grid(places),
        **{f"edges_{name}": array for name, array in edges._asdict().items()},
        **{f"group_{each.kind}": each.of.astype(np.uint32) for each in groupings},
    }
    content = {
        "points": places.shape[1],
        "texts": texts,
        "times": times,
        "side": SIDE,
        "full": FULL,
        "groupings": [
            {"kind": each.kind, "names": each.names, "sizes": each.sizes} for each in groupings
        ],
        "charts": [each._asdict() for each in charts],
    }
    return pack(content, arrays)


def _to_grid(places: np.ndarray) -> np.ndarray:
    """[T, N, 2] places in a square, in 16 bits; one unit is as long in both directions."""
    low, high = places.min((0, 1)), places.max((0, 1))
    width = float((high - low).max()) or 1.0
    margin = (width - (high - low)) / 2
    return np.rint((places - low + margin) * (SIDE / width)).astype(np.uint16)
