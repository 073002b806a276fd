"""Checks of tensors: type, layout, device and shape."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from .values import check_finite

# What is computed with; float8 is for storage, torch has hardly a function for it.
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
INDICES = (torch.int64, torch.int32)


def check_device(name: str, device: torch.device, x: Tensor, other: str = "x") -> None:
    """Raise unless `device`, that of the argument `name`, is the device of x, called `other`."""
    if device != x.device:
        raise ValueError(
            f"Expected '{name}' to be on the device of '{other}', {str(x.device)!r} "
            f"(got {str(device)!r})."
        )


def check_tensor(name: str, value: Any, what: str = "a torch.Tensor") -> None:
    """Raise a TypeError or ValueError unless `value` is a tensor that has values."""
    if not isinstance(value, Tensor):
        raise TypeError(f"Expected '{name}' to be {what} (got {type(value).__name__}).")
    if value.is_meta:
        raise ValueError(
            f"Expected '{name}' to have values (got a tensor on the device 'meta'). To fix this, "
            "make it on the CPU or a GPU."
        )


def check_dense(name: str, value: Tensor) -> None:
    """Raise a ValueError unless a tensor is dense."""
    if value.layout != torch.strided:
        raise ValueError(
            f"Expected '{name}' to be dense (got {value.layout}). To fix this, pass "
            f"{name}.to_dense()."
        )


def check_float(name: str, value: Any) -> None:
    """Raise a TypeError or ValueError unless `value` is a floating-point tensor with values."""
    check_tensor(name, value)
    if value.dtype not in FLOATS:
        raise TypeError(
            f"Expected '{name}' to be a floating-point tensor, of 16 bits at least "
            f"(got {value.dtype})."
        )


def check_integers(name: str, value: Any) -> None:
    """Raise a TypeError or ValueError unless `value` is a dense tensor of integers with values."""
    check_tensor(name, value)
    check_dense(name, value)
    if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
        raise TypeError(f"Expected '{name}' to be of integer type (got {value.dtype}).")


def real_numbers(name: str, value: Any) -> Tensor:
    """The tensor itself, or a float64 tensor of a number or of lists of numbers of one length."""
    if not isinstance(value, Tensor):
        try:
            array = np.asarray(value)
        except ValueError as error:
            raise ValueError(
                f"Expected '{name}' to hold numbers in rows of one length (got {value!r})."
            ) from error
        if array.dtype.kind not in "fiu":
            raise TypeError(f"Expected '{name}' to be a real number or several (got {value!r}).")
        return torch.tensor(array, dtype=torch.float64, device="cpu")
    if value.is_complex() or value.dtype == torch.bool:
        raise TypeError(f"Expected '{name}' to hold real numbers (got {value.dtype}).")
    if value.is_meta:
        raise ValueError(
            f"Expected '{name}' to have values (got a tensor on the device 'meta'). To fix this, "
            "make it with device='cpu', or pass a list."
        )
    return value


def check_vector(name: str, value: Any, count: int, what: str) -> None:
    """Raise unless `value` is a dense floating-point tensor [count], an entry for each `what`."""
    check_float(name, value)
    check_dense(name, value)
    if list(value.shape) != [count]:
        raise ValueError(
            f"Expected '{name}' to have shape [{count}], one entry for each {what} "
            f"(got {list(value.shape)})."
        )


def check_rows(name: str, value: Any, count: int, what: str) -> None:
    """Raise unless `value` is a dense floating-point tensor [count] or [count, F], a row each."""
    check_float(name, value)
    check_dense(name, value)
    if value.dim() not in (1, 2) or value.size(0) != count:
        raise ValueError(
            f"Expected '{name}' to have shape [{count}, F], a row for each {what} (got "
            f"{list(value.shape)})."
        )


def check_labels(name: str, value: Any, num_points: int | None = None) -> None:
    """Raise unless `value` is a 1-D integer tensor, with `num_points` entries where it is given."""
    check_integers(name, value)
    expected = "N" if num_points is None else num_points
    if value.dim() != 1 or (num_points is not None and value.numel() != num_points):
        raise ValueError(
            f"Expected '{name}' to have shape [{expected}], one label for each point "
            f"(got {list(value.shape)})."
        )


def check_points(name: str, value: Any) -> None:
    """Raise unless `value` is a finite floating-point tensor of shape [N, D] that is not empty."""
    check_float(name, value)
    check_dense(name, value)
    if value.dim() != 2 or value.numel() == 0:
        raise ValueError(
            f"Expected '{name}' to have shape [N, D], not empty (got {list(value.shape)})."
        )
    check_finite(name, value)
