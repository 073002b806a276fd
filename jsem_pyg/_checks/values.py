"""Check numbers, words and choices."""

import math
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
from torch import Tensor


@contextmanager
def as_argument(name: str, *parts: str, cure: str = r"\g<0>") -> Iterator[None]:
    """Errors about `parts` become errors about the argument `name`, as its user calls it.

    `cure` takes the place of the advice to call `to_undirected`.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        quoted = rf"'({'|'.join(map(re.escape, parts))})(?=['.\[])"
        renamed = re.sub(quoted, f"'{name}", str(error))
        renamed = re.sub(r"call torch_geometric\.utils\.to_undirected\(.*", cure, renamed)
        if type(error) not in (TypeError, ValueError) or renamed == str(error):
            raise
        raise type(error)(renamed) from error


def shown(value: Any) -> str:
    """Return a value as messages show it: of tensors and arrays, which fill pages, their shape."""
    if isinstance(value, Tensor | np.ndarray) and value.ndim:
        kind = "a tensor" if isinstance(value, Tensor) else "an array"
        return f"{kind} of shape {tuple(value.shape)}"
    return repr(value)


def check_choice(name: str, value: Any, choices: Collection[Any]) -> None:
    """Raise a ValueError unless `value` is one of `choices`, and of its type: 1 is not True."""
    # By type first: arrays, tensors and lists cannot be asked whether they are among the choices.
    of_type = [each for each in choices if isinstance(value, type(each))]
    if not any(
        value == each and isinstance(each, bool) == isinstance(value, bool) for each in of_type
    ):
        listed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"Expected '{name}' to be one of {listed} (got {shown(value)}).")


def check_bool(name: str, value: Any) -> None:
    """Raise a TypeError unless `value` is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"Expected '{name}' to be True or False (got {shown(value)}).")


def check_instance(name: str, value: Any, kinds: type | tuple[type, ...], what: str) -> None:
    """Raise a TypeError unless `value` is of one of these kinds, which `what` describes."""
    if not isinstance(value, kinds):
        found, cure = type(value), ""
        if found.__module__.startswith("networkx."):
            cure = " To fix this, convert it by torch_geometric.utils.from_networkx."
        elif issubclass(found, list | tuple | np.ndarray) and issubclass(Tensor, kinds):
            cure = " To fix this, convert it by torch.as_tensor."
        raise TypeError(f"Expected '{name}' to be {what} (got {found.__name__}).{cure}")


def check_keywords(layer: object, given: Collection[str], known: str) -> None:
    """Raise a TypeError in the name of a layer unless it knows all keyword arguments given."""
    for name in given:
        if name not in known.split():
            listed = ", ".join(known.split())
            raise TypeError(
                f"{type(layer).__name__} got an unexpected keyword argument {name!r}. To fix this, "
                f"take its own, or one of {listed}."
            )


def check_text(name: str, value: Any) -> None:
    """Raise a TypeError unless `value` is a string."""
    check_instance(name, value, str, "a string")


def check_number(name: str, value: Any) -> None:
    """Raise a TypeError unless `value` is a real number."""
    _check_kind(name, value, Real, "a number")


def check_between(name: str, value: Any, low: float, high: float) -> None:
    """Raise a TypeError or ValueError unless `value` is a number strictly between two others."""
    check_number(name, value)
    if not low < value < high:
        raise ValueError(f"Expected '{name}' to lie in ({low}, {high}) (got {value!r}).")


def check_positive(name: str, value: Any) -> None:
    """Raise a TypeError or ValueError unless `value` is a finite number above zero."""
    _check_kind(name, value, Real, "a positive number")
    if not 0 < value < math.inf:
        raise ValueError(f"Expected '{name}' to be positive and finite (got {value}).")


def check_nonnegative(name: str, value: Any) -> None:
    """Raise a TypeError or ValueError unless `value` is a finite number, zero or above."""
    _check_kind(name, value, Real, "a non-negative number")
    if not 0 <= value < math.inf:
        raise ValueError(f"Expected '{name}' to be non-negative and finite (got {value}).")


def check_positive_int(name: str, value: Any, other: str = "") -> None:
    """Raise a TypeError or ValueError unless `value` is an integer above zero.

    `other` is what may stand in its place, for the message: " or 'auto'".
    """
    _check_kind(name, value, Integral, f"a positive integer{other}")
    if value <= 0:
        raise ValueError(f"Expected '{name}' to be a positive integer{other} (got {value}).")


def check_nonnegative_int(name: str, value: Any) -> None:
    """Raise a TypeError or ValueError unless `value` is an integer, zero or above."""
    _check_kind(name, value, Integral, "a non-negative integer")
    if value < 0:
        raise ValueError(f"Expected '{name}' to be a non-negative integer (got {value}).")


def _check_kind(name: str, value: Any, kind: type, what: str) -> None:
    """Raise a TypeError unless `value` is a number of this kind; True and False are none."""
    if isinstance(value, bool) or not isinstance(value, kind):
        raise TypeError(f"Expected '{name}' to be {what} (got {shown(value)}).")


def check_times(times: Any, check: Callable[[str, Any], None]) -> None:
    """Raise unless `times` is a list of diffusion times that each pass a check."""
    if isinstance(times, str) or not isinstance(times, Sequence):
        raise TypeError(
            f"Expected 'times' to be a list of diffusion times (got {type(times).__name__})."
        )
    if len(times) == 0:
        raise ValueError("Expected 'times' to hold at least one diffusion time (got none).")
    for t in times:
        check("times", t)
