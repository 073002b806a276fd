"""Checks of what a tensor holds, also one that `torch.func` has wrapped."""

import torch
from torch import Tensor
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

# How far signals have to stay away from the largest number of their type.
_HEADROOM = 1e-7


def numbers_of(value: Tensor) -> Tensor:
    """The tensor behind the wrappers of `torch.func`, whose values can be looked at."""
    while torch._C._functorch.is_functorch_wrapped_tensor(value):
        value = torch._C._functorch.get_unwrapped(value)
    with temporarily_clear_interpreter_stack():  # where it would be wrapped again
        return value.detach()


def check_unbatched(name: str, value: Tensor) -> None:
    """Raise a ValueError if `value` is what `torch.func.vmap` maps over."""
    while torch._C._functorch.is_functorch_wrapped_tensor(value):
        if torch._C._functorch.is_batchedtensor(value):
            raise ValueError(
                f"Expected '{name}' to be the same for all that 'vmap' maps over, since a graph is "
                "prepared once (got one for each). To fix this, pass one disjoint union of the "
                "graphs, as torch_geometric.data.Batch makes it."
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


def check_nonnegative_entries(name: str, value: Tensor) -> None:
    """Raise a ValueError unless all entries of `value` are finite and non-negative."""
    check_finite(name, value)
    lowest = float(numbers_of(value).min()) if value.numel() > 0 else 0.0
    if lowest < 0:
        raise ValueError(f"Expected '{name}' to be non-negative (got a minimum of {lowest}).")


def signal_limit(dtype: torch.dtype) -> float:
    """The largest absolute value that entries of a signal of this type may have."""
    return _HEADROOM * torch.finfo(torch.promote_types(dtype, torch.float32)).max


def check_signal_range(name: str, value: Tensor) -> None:
    """Raise a ValueError unless sums of the entries of `value` are far from overflowing.

    A term of a series is as long as the signal: its entries may grow by the root of their number,
    and the sums on the way there by a few times that.
    """
    if value.layout != torch.strided or value.numel() == 0:
        check_finite(name, value)
        return
    limit = signal_limit(value.dtype)
    # In the order of memory, which is eight times as fast for a transposed matrix.
    numbers = numbers_of(value)
    order = sorted(range(numbers.dim()), key=numbers.stride, reverse=True)
    low, high = (float(each) for each in torch.aminmax(numbers.permute(order)))
    if -limit <= low and high <= limit:
        return
    check_finite(name, value)
    raise ValueError(
        f"Expected '{name}' to lie within {limit:.3g} of zero, so that no sum overflows (got "
        f"values from {low:.3g} to {high:.3g}). To fix this, divide by the largest, and multiply "
        "the result by it."
    )
