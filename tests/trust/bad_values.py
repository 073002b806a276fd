"""What an argument must not be, derived from its annotation and from the value of a good call."""

import copy
import inspect
import types
import typing
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

FLOAT8 = torch.float8_e4m3fn


class Stranger:
    """Of no type that anybody asks for."""


# A value of each kind, which is bad wherever no type of that kind is asked for.
STRAYS: dict[str, tuple[Any, tuple[type, ...]]] = {
    "None": (None, (type(None),)),
    "a string": ("nonsense", (str,)),
    "an integer": (3, (int, float)),
    "a float": (1.7, (float,)),
    "True": (True, (bool,)),
    "a complex number": (1j, ()),
    "a list": ([0.5, 0.7], (list,)),
    "a dict": ({}, ()),
    "an array": (np.ones(3), (np.ndarray,)),
    "a stranger": (Stranger(), ()),
    "a tensor": (torch.ones(3, 5, 2), (Tensor,)),
}

ANY_GRAPH = (Tensor,)  # what `Any` stands for: a graph in one of its forms


def accepted_types(annotation: Any, good: Any) -> set[type]:
    """The types that an annotation takes, flattened; where it says nothing, that of `good`."""
    if annotation in (inspect.Parameter.empty, Any):
        return {*ANY_GRAPH} if isinstance(good, Tensor) else {type(good)}
    if isinstance(annotation, str):
        return {type(good)}
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return set().union(*(accepted_types(each, good) for each in typing.get_args(annotation)))
    if origin is typing.Literal:
        return {type(each) for each in typing.get_args(annotation)}
    if origin is not None:
        annotation = origin
    # Nobody asks for a tuple where a list will not do.
    sequences = (Sequence, list, tuple)
    if annotation in sequences or getattr(annotation, "__name__", "") == "Iterable":
        return {list}
    return {annotation}


def bad_values(annotation: Any, good: Any) -> Iterator[tuple[str, Any]]:
    """Name and make what an argument must not be."""
    accepted = accepted_types(annotation, good)
    for name, (value, kinds) in STRAYS.items():
        if not accepted & set(kinds):
            yield name, copy.copy(value)
    if isinstance(good, Tensor):
        for name, value in bad_tensors(good):
            if not (isinstance(value, np.ndarray) and np.ndarray in accepted):
                yield name, value
    elif isinstance(good, np.ndarray):
        for name, value in bad_tensors(torch.from_numpy(good)):
            if name not in ("an array", "a list"):
                yield name, _to_array(value)
    elif isinstance(good, Data):
        yield "an empty Data", Data()
        yield from _bad_data(good)
    elif isinstance(good, str):
        yield "another string", "nonsense"
        yield "an empty string", ""
    elif accepted & {float}:
        yield from {"NaN": float("nan"), "infinity": float("inf"), "-1.0": -1.0}.items()
    elif accepted & {int}:
        yield from {"-3": -3, "1.5 as float": 1.5, "3.0 as float": 3.0}.items()
    if isinstance(good, list):
        yield "no entry", []
        yield "strings", ["nonsense"]
        yield "fractions and NaN", [1.7, float("nan")]
        yield "None inside", [None]
        yield "negative", [-2]


def _to_array(value: Tensor) -> Tensor | np.ndarray:
    """Of NumPy, where NumPy has it."""
    is_plain = value.layout == torch.strided and not value.is_meta and value.dtype != FLOAT8
    return value.numpy() if is_plain else value


def bad_tensors(good: Tensor) -> Iterator[tuple[str, Tensor]]:
    """Another device, type, shape or value than that of a good tensor."""
    # Only what is not there in earnest has no values.
    yield "on the device meta", good.to("meta")
    yield "complex", good.to(torch.complex64)
    yield "a scalar", good.flatten()[0].clone()
    yield "sparse", (good if good.dim() > 1 else good.float().unsqueeze(0)).to_sparse()
    yield "of no entries", good.new_zeros(0)
    if good.is_floating_point():
        yield "float8", good.to(FLOAT8)
        yield "of integers", good.long()
        yield "of booleans", good.bool()
        yield "with NaN", _changed(good, float("nan"))
        yield "with infinity", _changed(good, float("inf"))
        yield "a list", good.tolist()
        yield "an array", good.numpy()
    elif good.dtype == torch.bool:
        yield "of integers", good.long()
    else:
        yield "float8", good.float().to(FLOAT8)
        yield "of floats", good.float()
        yield "of booleans", good.bool()
        yield "a list", good.tolist()
        yield "with a large entry", _changed(good, 10**6)
        yield "with a negative entry", _changed(good, -7)
    if good.dim() == 1:
        yield "with an entry too many", torch.cat([good, good[:1]])
    yield "with a dimension in front", good.unsqueeze(0)


def _bad_data(good: Data) -> Iterator[tuple[str, Data]]:
    """Each attribute in turn missing or bad."""
    for name, value in good.to_dict().items():
        for what, bad in bad_tensors(value):
            changed = copy.copy(good)
            changed[name] = bad
            yield f"{name} {what}", changed


def _changed(good: Tensor, value: float) -> Tensor:
    bad = good.clone()
    bad.view(-1)[0] = value
    return bad


def snapshot(value: Any) -> Any:
    """What a call must not change, in a form that `same` compares."""
    if isinstance(value, torch.nn.Module):
        states = {name: each.detach().clone() for name, each in value.state_dict().items()}
        return states, [each.training for each in value.modules()]
    if isinstance(value, Data):
        return {name: snapshot(each) for name, each in value.to_dict().items()}
    if isinstance(value, Tensor):
        return value if value.is_meta or value.layout != torch.strided else value.clone()
    if isinstance(value, list | dict | np.ndarray):
        return copy.copy(value)
    return value


def same(before: Any, after: Any) -> bool:
    """Whether two snapshots agree; NaN is NaN."""
    if isinstance(before, Tensor):
        if before.is_meta or before.layout != torch.strided:
            return True
        is_float8 = before.dtype == FLOAT8
        pair = (before.float(), after.float()) if is_float8 else (before, after)
        return before.dtype == after.dtype and torch.equal(*map(_comparable, pair))
    if isinstance(before, dict):
        return before.keys() == after.keys() and all(same(before[k], after[k]) for k in before)
    if isinstance(before, tuple | list):
        return len(before) == len(after) and all(map(same, before, after))
    if isinstance(before, np.ndarray):
        return before.dtype == after.dtype and np.array_equal(
            before, after, before.dtype.kind == "f"
        )
    return before is after or bool(np.all(before == after)) or before != before


def _comparable(value: Tensor) -> Tensor:
    return value.nan_to_num(nan=12345.0) if value.is_floating_point() else value
