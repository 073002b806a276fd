"""Content of the page: read from the arguments of a report, and packed for its scripts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from torch_geometric.data import Data

from .._checks import check_nonnegative, check_times
from .edges import FULL, EdgeTable, Histogram
from .findings import Findings
from .groups import Grouping, group
from .layout import times_to
from .payload import pack

SIDE = 65_535  # of the map, whose places have 16 bits: a pixel's width when 60 times enlarged


def read_texts(text: Any, num_points: int) -> list[str] | None:
    """The texts as a list, or None."""
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


def read_counts(counts: Any, num_points: int) -> np.ndarray | None:
    """How many rows [N] each point stands for; None where each is one."""
    if counts is None:
        return None
    read = np.asarray(counts)
    if read.dtype.kind not in "iu" or read.shape != (num_points,) or (read < 1).any():
        raise ValueError(
            f"Expected 'counts' to be {num_points} integers >= 1, one for each point (got "
            f"{read.dtype} {list(read.shape)})."
        )
    return read.astype(np.uint32) if (read > 1).any() else None


def read_groupings(
    graph: Data, found: Findings, cluster_names: Any, label_names: Any, level_names: Any
) -> list[Grouping]:
    """Clusters, labels if there are any, and other levels of clusters."""
    groupings = [group("cluster", found.labels, cluster_names, "cluster_names")]
    if graph.get("y") is not None:
        groupings.append(group("label", graph.y, label_names, "label_names"))
    elif label_names is not None:
        raise ValueError(
            "Expected 'label_names' to be left out for 'data' without labels y (got "
            f"{label_names!r})."
        )
    if level_names is not None and not isinstance(level_names, list | tuple):
        raise TypeError(
            "Expected 'level_names' to be a list of names for each level (got "
            f"{type(level_names).__name__})."
        )
    if level_names is not None and len(level_names) != len(found.levels):
        raise ValueError(
            f"Expected 'level_names' to have names for {len(found.levels)} levels, all but the "
            f"first (got {len(level_names)})."
        )
    for number, labels in enumerate(found.levels):
        names = None if level_names is None else level_names[number]
        level = group("cluster", labels, names, "level_names")
        groupings.append(replace(level, is_level=True))
    return groupings


def read_images(images: Any, num_points: int) -> np.ndarray | None:
    """Pictures [N, H, W] in 256 greys, dark ink on light paper for the largest numbers."""
    if images is None:
        return None
    read = np.asarray(images)
    if read.dtype.kind not in "biuf":
        raise TypeError(f"Expected 'images' to be an array of numbers (got {read.dtype}).")
    if read.ndim != 3 or len(read) != num_points or 0 in read.shape:
        raise ValueError(
            f"Expected 'images' to be [{num_points}, H, W], a picture for each point (got "
            f"{list(read.shape)})."
        )
    read = read.astype(np.float64)
    if not np.isfinite(read).all():
        raise ValueError("Expected 'images' to be finite (got NaN or infinity).")
    read /= np.abs(read).max() or 1  # so that nothing overflows
    low, high = read.min(), read.max()
    return np.rint((read - low) * (255 / ((high - low) or 1))).astype(np.uint8)


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
    images: np.ndarray | None = None,
    counts: np.ndarray | None = None,
) -> str:
    """All that the scripts of the page read, see :func:`~jsem_pyg.report.payload.pack`."""
    arrays = {
        "places": _to_grid(places),
        **{f"edges_{name}": array for name, array in edges._asdict().items()},
        **{f"group_{i}": each.of.astype(np.uint32) for i, each in enumerate(groupings)},
    }
    if images is not None:
        arrays["images"] = images
    if counts is not None:
        arrays["counts"] = counts
    content = {
        "points": places.shape[1],
        "texts": texts,
        "times": times,
        "side": SIDE,
        "full": FULL,
        "groupings": [
            {name: value for name, value in vars(each).items() if name != "of"}
            for each in groupings
        ],
        "picture": None if images is None else list(images.shape[1:]),
        "charts": [each._asdict() for each in charts],
    }
    return pack(content, arrays)


def _to_grid(places: np.ndarray) -> np.ndarray:
    """[T, N, 2] places in a square, in 16 bits; one unit is as long in both directions."""
    low, high = places.min((0, 1)), places.max((0, 1))
    width = float((high - low).max()) or 1.0
    margin = (width - (high - low)) / 2
    return np.rint((places - low + margin) * (SIDE / width)).astype(np.uint16)
