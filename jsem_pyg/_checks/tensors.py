"""Check tensors and arrays: their type, their shape and the range of their numbers."""

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

from .values import check_instance, shown

# What is computed with; float8 is for storage, torch has hardly a function for it.
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)

# The supported range (docs/scope.md): in it sums and squares, and their gradients, stay in the
# range of the type. Half precision is computed in float32.
_MOST_SIGNAL = {torch.float32: 1e15, torch.float64: 1e100}
_WEIGHTS = {torch.float32: (1e-30, 1e30), torch.float64: (1e-200, 1e200)}
_ROUNDING = 1e-6  # of these ends to float32


def numbers_of(value: Tensor) -> Tensor:
    """Return the tensor behind the wrappers of `torch.func`, whose values can be looked at."""
    while torch._C._functorch.is_functorch_wrapped_tensor(value):
        value = torch._C._functorch.get_unwrapped(value)
    if not torch._C._are_functorch_transforms_active():
        return value.detach()
    with temporarily_clear_interpreter_stack():  # where it would be wrapped again
        return value.detach()


def list_of(value: Tensor) -> list[Any]:
    """Return the numbers of a tensor, one after the other, also within `torch.func`."""
    out: list[Any]
    if not torch._C._are_functorch_transforms_active():
        out = value.flatten().tolist()
        return out
    with temporarily_clear_interpreter_stack():  # where torch 2.8 could not read them
        out = numbers_of(value).flatten().tolist()
        return out


def check_unbatched(name: str, value: Tensor) -> None:
    """Raise a ValueError if `value` is what `torch.func.vmap` maps over."""
    while torch._C._functorch.is_functorch_wrapped_tensor(value):
        if torch._C._functorch.is_batchedtensor(value):
            raise ValueError(
                f"Expected '{name}' to be the same for all that 'vmap' maps over (got one for "
                "each). To fix this, pass one graph of all, as torch_geometric.data.Batch makes it."
            )
        value = torch._C._functorch.get_unwrapped(value)


def check_finite(name: str, value: Tensor) -> None:
    """Raise a ValueError that counts the NaN and infinite entries of `value`, if there are any."""
    value = numbers_of(value)
    # A sum of finite numbers may overflow, but no sum over a NaN or an infinity is finite.
    if value.layout == torch.strided and bool(value.sum().isfinite()):
        return
    stored = value.coalesce() if value.is_sparse else value
    finite = torch.isfinite(stored if stored.layout == torch.strided else stored.values())
    if not bool(finite.all()):
        bad = int((~finite).sum())
        raise ValueError(
            f"Expected '{name}' to be finite (got {bad} NaN or infinite of "
            f"{value.numel()} entries, shape {list(value.shape)})."
        )


def in_range(value: Tensor, dtype: torch.dtype) -> bool:
    """Return True if finite weights >= 0 are in the range that is supported in `dtype`."""
    least, most = _WEIGHTS[dtype]
    value = numbers_of(value)
    if value.numel() == 0 or float(value.max()) > most * (1 + _ROUNDING):
        return value.numel() == 0
    least *= 1 - _ROUNDING
    return float(value.min()) >= least or not bool(((value > 0) & (value < least)).any())


def check_weight_range(name: str, value: Tensor) -> None:
    """Raise a ValueError unless entries are zero or positive numbers in the supported range."""
    check_finite(name, value)
    value = numbers_of(value)
    low = float(value.min()) if value.numel() else 0.0
    if low < 0:
        raise ValueError(
            f"Expected '{name}' to be non-negative (got a minimum of {low}). To fix this, map "
            "it to positive numbers, such as (1 + cos) / 2; if it is learned, train its logarithm, "
            "and pass the exponential."
        )
    dtype = torch.promote_types(value.dtype, torch.float32)
    if not in_range(value, dtype):
        (least, most), positive = _WEIGHTS[dtype], value[value > 0]
        raise ValueError(
            f"Expected '{name}' to be zero, or from {least:g} to {most:g} (got "
            f"{float(positive.min()):.3g} to {float(positive.max()):.3g}). To fix this, divide by "
            "the largest, and leave out what is too small."
        )


def signal_limit(dtype: torch.dtype) -> float:
    """Return the largest absolute value that entries of a signal of this type may have."""
    return _MOST_SIGNAL[torch.promote_types(dtype, torch.float32)]


def check_signal_range(name: str, value: Tensor) -> None:
    """Raise a ValueError unless sums of the entries of `value` are far from overflowing."""
    if value.layout != torch.strided or value.numel() == 0:
        check_finite(name, value)
        return
    limit = signal_limit(value.dtype)
    numbers = numbers_of(value)
    if not numbers.is_contiguous():  # the order of memory is eight times as fast for a transpose
        numbers = numbers.permute(sorted(range(numbers.dim()), key=numbers.stride, reverse=True))
    low, high = (each.item() for each in torch.aminmax(numbers))
    if -limit <= low and high <= limit:
        return
    check_finite(name, value)
    raise ValueError(
        f"Expected '{name}' to lie within {limit:.3g} of zero, so that no sum overflows (got "
        f"values from {low:.3g} to {high:.3g}). To fix this, divide by the largest, and multiply "
        "the result by it."
    )


def check_device(name: str, device: torch.device, expected: torch.device, other: str = "x") -> None:
    """Raise unless `device`, that of the argument `name`, is the one that `other` is on."""
    if device != expected:
        raise ValueError(
            f"Expected '{name}' to be on the device of '{other}', {str(expected)!r} "
            f"(got {str(device)!r})."
        )


def check_tensor(name: str, value: Any, what: str = "a torch.Tensor") -> None:
    """Raise a TypeError unless `value` is a tensor."""
    check_instance(name, value, Tensor, what)


def check_dense(name: str, value: Tensor) -> None:
    """Raise a ValueError unless a tensor is dense."""
    if value.layout != torch.strided:
        raise ValueError(f"Expected '{name}' to be dense (got {value.layout}).")


def check_float(name: str, value: Any) -> None:
    """Raise a TypeError unless `value` is a floating-point tensor."""
    check_tensor(name, value)
    if value.dtype not in FLOATS:
        raise TypeError(f"Expected '{name}' to be a floating-point tensor (got {value.dtype}).")


def check_integers(name: str, value: Any) -> None:
    """Raise a TypeError or ValueError unless `value` is a dense tensor of integers."""
    check_tensor(name, value)
    check_dense(name, value)
    if value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
        raise TypeError(f"Expected '{name}' to be of integer type (got {value.dtype}).")


def check_unmasked(name: str, array: Any) -> None:
    """Raise a ValueError if entries of an array are masked: those below would be taken."""
    if np.ma.is_masked(array):
        raise ValueError(f"Expected '{name}' without a mask (got masked values).")


def tensor_of(name: str, array: Any) -> Tensor:
    """Return a NumPy array of numbers as a tensor, which shares its memory if it can."""
    if array.dtype.kind not in "biufc" or array.dtype.itemsize > 8 or not array.dtype.isnative:
        raise TypeError(f"Expected '{name}' to hold numbers of 64 bits (got {array.dtype}).")
    check_unmasked(name, array)
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))


def real_numbers(name: str, value: Any) -> Tensor:
    """Return a tensor as it is, a number or lists of numbers of one length in float64."""
    if not isinstance(value, Tensor):
        check_unmasked(name, value)
        try:
            array = np.asarray(value)
        except ValueError:  # rows of different length
            array = np.array("")
        if array.dtype.kind not in "fiu":
            raise TypeError(
                f"Expected '{name}' to be a real number or several (got {shown(value)})."
            )
        return torch.tensor(array.astype(np.float64), device="cpu")
    if value.is_complex() or value.dtype == torch.bool:
        raise TypeError(f"Expected '{name}' to hold real numbers (got {value.dtype}).")
    return value


def check_vector(name: str, value: Any, count: int, what: str, remedy: str = "") -> None:
    """Raise unless `value` is a dense floating-point tensor [count], an entry for each `what`."""
    check_float(name, value)
    check_dense(name, value)
    if list(value.shape) != [count]:
        raise ValueError(
            f"Expected '{name}' to have shape [{count}], one entry for each {what} "
            f"(got {list(value.shape)}).{remedy}"
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


def check_mask(name: str, mask: Any, shape: tuple[int, ...], what: str) -> None:
    """Raise unless `mask` is a boolean tensor of a shape, one entry for each of `what`."""
    check_tensor(name, mask, "a boolean tensor")
    check_dense(name, mask)
    if mask.dtype != torch.bool:
        raise TypeError(f"Expected '{name}' to be a boolean tensor (got {mask.dtype}).")
    if mask.shape != shape:
        raise ValueError(
            f"Expected '{name}' to have shape {list(shape)}, one entry for each of the {what} "
            f"(got {list(mask.shape)})."
        )


def check_matrix(name: str, value: Any) -> None:
    """Raise unless `value` is a finite floating-point tensor of shape [N, D], perhaps empty."""
    check_float(name, value)
    check_dense(name, value)
    if value.dim() != 2:
        raise ValueError(f"Expected '{name}' to have shape [N, D] (got {list(value.shape)}).")
    check_finite(name, value)


def check_points(name: str, value: Any) -> None:
    """Raise unless `value` is a finite floating-point tensor of shape [N, D] that is not empty."""
    check_matrix(name, value)
    if value.numel() == 0:
        raise ValueError(
            f"Expected '{name}' to have shape [N, D], not empty (got {list(value.shape)})."
        )
