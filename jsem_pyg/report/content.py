"""Collect what the page shows: groups of points, edges and pictures."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

from ..training.training_graph import TrainingGraph
from .findings import Findings

SIDE = 65_535  # of the map, whose places have 16 bits: a pixel's width when 60 times enlarged
FULL = 65_500  # a conductance of one, in 16 bits; hundredths, the page's thresholds, are whole


@dataclass(frozen=True)
class Grouping:
    """Holds the groups that colour the points: clusters or labels."""

    kind: str  # "cluster" or "label"
    names: list[str]  # of the groups
    sizes: list[int]
    of: np.ndarray  # [N] the group of each point
    is_level: bool = False  # another number of clusters than the one that was taken


def read_groupings(
    graph: TrainingGraph, found: Findings, cluster_names: Any, label_names: Any, level_names: Any
) -> list[Grouping]:
    """Name the clusters, the labels if there are any, and the other levels of clusters."""
    groupings = [_group("cluster", found.labels, cluster_names, "cluster_names")]
    if graph.y is not None:
        groupings.append(_group("label", graph.y, label_names, "label_names"))
    levels = [None] * len(found.levels) if level_names is None else list(level_names)
    if len(levels) != len(found.levels):
        raise ValueError(
            f"Expected 'level_names' to be a list of names for each of {len(found.levels)} levels, "
            f"all but the first (got {level_names!r})."
        )
    for labels, names in zip(found.levels, levels, strict=True):
        groupings.append(replace(_group("cluster", labels, names, "level_names"), is_level=True))
    return groupings


def _group(kind: str, labels: Tensor, names: Any, argument: str) -> Grouping:
    """Group points by their labels [N], ascending; `argument` gave the names."""
    values, of, sizes = np.unique(labels.cpu().numpy(), return_inverse=True, return_counts=True)
    found = values.tolist()
    if names is None:
        names = {value: f"{kind} {value}" for value in found}
    elif not isinstance(names, Mapping):
        names = dict(enumerate(read_texts(argument, names)))
    if unnamed := [value for value in found if not isinstance(names.get(value), str)]:
        raise ValueError(
            f"Expected '{argument}' to have a name, a string, for every {kind} (got "
            f"{names.get(unnamed[0])!r} for {unnamed[0]})."
        )
    return Grouping(kind, [names[value] for value in found], sizes.tolist(), of.reshape(-1))


def read_texts(name: str, texts: Any, count: int | None = None) -> list[str]:
    """Return the texts of the argument `name` as a list of `count` strings."""
    is_list = isinstance(texts, Iterable) and not isinstance(texts, str)
    found = list(texts) if is_list else [texts]
    if not is_list or not all(isinstance(each, str) for each in found):
        raise TypeError(f"Expected '{name}' to be a list of strings (got {texts!r:.200}).")
    if count is not None and len(found) != count:
        raise ValueError(
            f"Expected '{name}' to be {count} strings, one for each point (got {len(found)})."
        )
    return found


def read_counts(counts: Any, num_points: int) -> np.ndarray | None:
    """Return how many rows [N] each point stands for; None if all stand for one."""
    read = np.asarray([1] * num_points if counts is None else counts)
    if read.dtype.kind not in "iu" or read.shape != (num_points,) or (read < 1).any():
        raise ValueError(
            f"Expected 'counts' to be {num_points} integers >= 1, one for each point (got "
            f"{read.dtype} {list(read.shape)})."
        )
    return read.astype(np.uint32) if (read > 1).any() else None


def read_images(images: Any, num_points: int) -> np.ndarray | None:
    """Turn pictures [N, H, W] into 256 greys, dark ink on light paper for the largest numbers."""
    if images is None:
        return None
    read = np.asarray(images, dtype=np.float64)
    if read.ndim != 3 or len(read) != num_points or 0 in read.shape or not np.isfinite(read).all():
        raise ValueError(
            f"Expected 'images' to be finite [{num_points}, H, W], a picture for each point (got "
            f"{list(read.shape)})."
        )
    low, high = read.min(), read.max()
    return np.rint((read - low) * (255 / ((high - low) or 1))).astype(np.uint8)


def edge_arrays(edge_index: Tensor, conductance: Tensor, num_nodes: int) -> dict[str, np.ndarray]:
    """List each edge once, at its smaller end: M edges of N nodes.

    Returns:
        "edges_start" [N + 1], where the edges of each node begin; "edges_end" [M], the larger end;
        "edges_conductance" [M], in parts of `FULL`.
    """
    once = (edge_index[0] < edge_index[1]).nonzero().flatten()
    source, target = edge_index[:, once].numpy()
    order = np.lexsort((target, source))
    start = np.searchsorted(source[order], np.arange(num_nodes + 1))
    parts = (conductance[once].double() * FULL).round().numpy()
    return {
        "edges_start": start.astype(np.uint32),
        "edges_end": target[order].astype(np.uint32),
        "edges_conductance": parts[order].astype(np.uint16),
    }


def to_grid(places: np.ndarray) -> np.ndarray:
    """Fit places [T, N, 2] into a square of 16 bits, as far apart in both directions."""
    low, high = places.min((0, 1)), places.max((0, 1))
    width = float((high - low).max()) or 1.0
    margin = (width - (high - low)) / 2
    return np.rint((places - low + margin) * (SIDE / width)).astype(np.uint16)


def for_scripts(each: Grouping) -> dict[str, Any]:
    """Return the fields but the array, as values of JSON."""
    return {name: value for name, value in vars(each).items() if name != "of"}
