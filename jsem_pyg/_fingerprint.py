"""Describes what a result depends on by texts, and compares these when a run is resumed."""

import hashlib
import logging
import os
import re
from collections.abc import Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

# These follow from the shapes of the weights; lazy modules fill them in at their first call.
_KNOWN_BY_SHAPE = {"in_channels", "in_features", "num_features"}

# Known by their name alone: a program hangs on their attributes.
_NAMED = (type, FunctionType, BuiltinFunctionType, MethodType)
_OPAQUE = (*_NAMED, Tensor, ModuleType, logging.Logger)

_MOST_NAMED = 3  # differences that a message lists
_MISSING = "left out"


def tensor_bytes(value: Tensor) -> memoryview:
    """Return the numbers of a dense tensor in order, without a copy if they lie so on the CPU."""
    if value.numel() == 0:
        return memoryview(b"")  # which may have any strides
    plain = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
    return plain.reshape(-1).view(torch.uint8).numpy().data


def digest(value: Tensor) -> str:
    """Return type, shape and a BLAKE2 hash of all numbers: a changed entry is always seen."""
    if is_lazy(value):
        return "not known yet"
    if value.layout != torch.strided:
        value = value.to_sparse_coo().coalesce()
        return f"sparse {list(value.shape)}: {digest(value.indices())}, {digest(value.values())}"
    dtype = str(value.dtype).removeprefix("torch.")
    hashed = hashlib.blake2b(tensor_bytes(value), digest_size=8).hexdigest()
    return f"{dtype} {list(value.shape)} {hashed}"


def describe(name: str, value: Any, outer: tuple[int, ...] = ()) -> dict[str, str]:
    """Return a text for `value` and for each part of it, by the name of the part.

    Parts are entries of containers and public attributes. Tensors and arrays count by all their
    numbers, functions and classes by their name, other objects without attributes by their repr. Of
    a model the weights are left out, which are in its state dict. `outer` are the ids of the values
    that this is a part of.
    """
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        value = torch.from_numpy(np.array(value))
    texts = {name: _text(value)}
    if id(value) not in outer:  # else a part of itself
        for part, inner in _parts(value).items():
            texts |= describe(f"{name}.{part}", inner, (*outer, id(value)))
    return texts


def _text(value: Any) -> str:
    """Describe a value without its parts in one line."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 1 and 1.0 mean the same
    if isinstance(value, Tensor):
        return digest(value)
    if isinstance(value, set | frozenset):
        return repr(sorted(map(repr, value)))
    if isinstance(value, _NAMED):
        # Not the random number in the name of the module that PyG's Sequential writes for itself.
        return re.sub("_[0-9a-f]{6}$", "", str(value.__module__)) + f".{value.__qualname__}"
    kind = str((getattr(value, "cls_to_become", None) or type(value)).__qualname__)
    text = repr(value)
    has_parts = isinstance(value, Mapping | list | tuple) or hasattr(value, "__dict__")
    return kind if has_parts or " at 0x" in text else text


def _parts(value: Any) -> dict[Any, Any]:
    """Return entries, or public attributes, by name; of a module what no state dict has."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, list | tuple):
        return dict(enumerate(value))
    if isinstance(value, _OPAQUE):
        return {}
    parts = {key: v for key, v in getattr(value, "__dict__", {}).items() if key[:1] != "_"}
    if isinstance(value, nn.Module):
        parts = {key: inner for key, inner in parts.items() if key not in _KNOWN_BY_SHAPE}
        weights = ((key, p) for key, p in value._parameters.items() if p is not None)
        parts |= {f"{key}.requires_grad": p.requires_grad for key, p in weights}
        parts |= {key: value._buffers[key] for key in value._non_persistent_buffers_set}
        parts |= dict(value.named_children())
    return parts


def check_same_settings(
    path: str | os.PathLike[str], then: Mapping[str, Any], now: Mapping[str, Any], remedy: str
) -> None:
    """Raise a ValueError that names the settings in which a run differs from one to be resumed.

    `path` is the file or folder of the run, and `remedy` what else the user can do.
    """
    names = [
        name
        for name in [*now, *(name for name in then if name not in now)]
        if then.get(name, _MISSING) != now.get(name, _MISSING)
    ]
    if not names:
        return
    named = names[:_MOST_NAMED]
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    expected = ", ".join(f"'{name}' to be {then.get(name, _MISSING)}" for name in named)
    got = ", ".join(str(now.get(name, _MISSING)) for name in named)
    raise ValueError(
        f"Expected {expected}{more}, as in the run that '{path}' was begun with (got {got}). To "
        f"fix this, use the same settings, or {remedy}."
    )
