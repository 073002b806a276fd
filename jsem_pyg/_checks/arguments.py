"""Checks of arguments that are no tensors: numbers, choices, words."""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any


@contextmanager
def as_argument(name: str, *parts: str) -> Iterator[None]:
    """Errors about `parts` become errors about the argument `name`, as its user calls it."""
    try:
        yield
    except (TypeError, ValueError) as error:
        quoted = rf"'({'|'.join(map(re.escape, parts))})(?=['.\[])"
        said = re.sub(quoted, f"'{name}", str(error))
        if type(error) not in (TypeError, ValueError) or said == str(error):
            raise
        raise type(error)(said) from error


def check_choice(name: str, value: Any, choices: Collection[Any]) -> None:
    """Raise a ValueError unless `value` is one of `choices`, and of its type: 1 is not True."""
    # By type first: arrays, tensors and lists cannot be asked whether they are among the choices.
    is_bool = isinstance(value, bool)  # which is an int as well
    of_type = [
        each
        for each in choices
        if isinstance(value, type(each)) and isinstance(each, bool) == is_bool
    ]
    if not any(value == each for each in of_type):
        listed = ", ".join(repr(choice) for choice in choices)
        raise ValueError(f"Expected '{name}' to be one of {listed} (got {value!r}).")


def check_bool(name: str, value: Any) -> None:
    """Raise a TypeError unless `value` is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"Expected '{name}' to be True or False (got {value!r}).")


def check_instance(name: str, value: Any, kinds: type | tuple[type, ...], what: str) -> None:
    """Raise a TypeError unless `value` is of one of these kinds, which `what` describes."""
    if not isinstance(value, kinds):
        raise TypeError(f"Expected '{name}' to be {what} (got {type(value).__name__}).")


def check_text(name: str, value: Any) -> None:
    """Raise a TypeError unless `value` is a string."""
    check_instance(name, value, str, "a string")


def check_number(name: str, value: Any) -> None:
    """Raise a TypeError unless `value` is a real number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"Expected '{name}' to be a number (got {value!r}).")


def check_between(name: str, value: Any, low: float, high: float) -> None:
    """Raise a TypeError or ValueError unless `value` is a number strictly between two others."""
    check_number(name, value)
    if not low < float(value) < high:
        raise ValueError(f"Expected '{name}' to lie in ({low}, {high}) (got {value!r}).")


def check_positive(name: str, value: Any) -> None:
    """Raise a TypeError or ValueError unless `value` is a finite number above zero."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"Expected '{name}' to be a positive number (got {value!r}).")
    if not 0 < float(value) < float("inf"):
        raise ValueError(f"Expected '{name}' to be positive and finite (got {value}).")


def check_nonnegative(name: str, value: Any) -> None:
    """Raise a TypeError or ValueError unless `value` is a finite number, zero or above."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"Expected '{name}' to be a non-negative number (got {value!r}).")
    if not 0 <= float(value) < float("inf"):
        raise ValueError(f"Expected '{name}' to be non-negative and finite (got {value}).")


def check_positive_int(name: str, value: Any) -> None:
    """Raise a TypeError or ValueError unless `value` is an integer above zero."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"Expected '{name}' to be a positive integer (got {value!r}).")
    if value <= 0:
        raise ValueError(f"Expected '{name}' to be a positive integer (got {value}).")


def check_nonnegative_int(name: str, value: Any) -> None:
    """Raise a TypeError or ValueError unless `value` is an integer, zero or above."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"Expected '{name}' to be a non-negative integer (got {value!r}).")
    if value < 0:
        raise ValueError(f"Expected '{name}' to be a non-negative integer (got {value}).")
