"""Groups that colour the points: clusters, labels, and their names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor


@dataclass(frozen=True)
class Grouping:
    """A group for every point, such as clusters."""

    kind: str  # "cluster" or "label"
    names: list[str]  # of the groups
    sizes: list[int]
    of: np.ndarray  # [N] the group of each point
    is_level: bool = False  # another number of clusters than the one that was taken


def group(kind: str, labels: Tensor, names: Any, argument: str) -> Grouping:
    """The groups of labels [N], ascending, and their names, which messages call `argument`."""
    values, of, sizes = np.unique(labels.numpy(), return_inverse=True, return_counts=True)
    found = [int(value) for value in values]
    if names is None:
        named = {value: f"{kind} {value}" for value in found}
    else:
        named = _read_names(names, argument)
        missing = [value for value in found if value not in named]
        if missing:
            raise ValueError(
                f"Expected '{argument}' to have a name for every {kind} (got none for "
                f"{missing[0]}, the first of {len(missing)})."
            )
    return Grouping(kind, [named[value] for value in found], sizes.tolist(), of.reshape(-1))


def _read_names(names: Any, argument: str) -> dict[Any, str]:
    if isinstance(names, Mapping):
        read = dict(names)
    elif isinstance(names, Sequence) and not isinstance(names, str):
        read = dict(enumerate(names))
    else:
        raise TypeError(
            f"Expected '{argument}' to be a list of names, or a mapping from labels to names (got "
            f"{type(names).__name__})."
        )
    for name in read.values():
        if not isinstance(name, str):
            raise TypeError(f"Expected '{argument}' to hold strings (got {name!r}).")
    return read
