"""Describes what a result depends on by texts that are the same in every process."""

import functools
import hashlib
import logging
import re
from collections.abc import Iterator, Mapping
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch_geometric.data.data import BaseData
from torch_geometric.typing import SparseTensor

# These follow from the shapes of the weights; lazy modules fill them in at their first call.
_KNOWN_BY_SHAPE = {"in_channels", "in_features", "num_features"}

# Known by their class alone: a program hangs on their attributes.
_OPAQUE = (type, ModuleType, logging.Logger)
_DEEPEST = 20  # attributes of attributes


def tensor_bytes(value: Tensor) -> memoryview:
    """Return the numbers of a dense tensor in order, without a copy if they lie so on the CPU."""
    if value.numel() == 0:
        return memoryview(b"")  # which may have any strides
    plain = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
    return plain.reshape(-1).view(torch.uint8).numpy().data


def digest(value: Tensor) -> str:
    """Return type, shape and a BLAKE2 hash of all numbers: a changed entry is always seen.

    A million points of 128 channels (512 MB) take about half a second.

    Example:
        >>> digest(torch.zeros(2, 3))
        'float32 [2, 3] 2bb6ae06ad472028'
    """
    if is_lazy(value):
        return "not known yet"
    if value.layout != torch.strided:
        value = value.to_sparse_coo().coalesce()
        return f"sparse {list(value.shape)}: {digest(value.indices())}, {digest(value.values())}"
    dtype = str(value.dtype).removeprefix("torch.")
    return f"{dtype} {list(value.shape)} {_short_hash(tensor_bytes(value))}"


def _short_hash(content: bytes | memoryview) -> str:
    return hashlib.blake2b(content, digest_size=8).hexdigest()


def describe(name: str, value: Any) -> dict[str, str]:
    """Return a text for `value` and for each part of it, by the name of the part.

    Parts are entries of containers and public attributes. Tensors and arrays count by all their
    numbers, functions by name, code and closure, other objects without attributes by their repr. Of
    a model the weights are left out, which are in its state dict.

    Example:
        >>> describe("model", nn.Dropout(0.5))["model.p"]
        '0.5'
    """
    return dict(_describe(name, value, ()))


def _describe(name: str, value: Any, outer: tuple[int, ...]) -> Iterator[tuple[str, str]]:
    yield name, _text(value)
    if id(value) in outer or len(outer) == _DEEPEST:  # a part of itself
        return
    for part, inner in _parts(value):
        yield from _describe(f"{name}.{part}", inner, (*outer, id(value)))


def _text(value: Any) -> str:
    """Describe a value without its parts in one line."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 1 and 1.0 mean the same
    if isinstance(value, torch.Generator):
        value = value.get_state()
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        value = torch.from_numpy(np.array(value))
    if isinstance(value, Tensor):
        return digest(value)
    if isinstance(value, set | frozenset):
        return repr(sorted(map(repr, value)))
    if isinstance(value, FunctionType):
        # Not the random number in the name of the module that PyG's Sequential writes for itself.
        module = re.sub("_[0-9a-f]{6}$", "", value.__module__)
        return f"{module}.{value.__qualname__} (code {_code_hash(value.__code__)})"
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    kind = str((getattr(value, "cls_to_become", None) or type(value)).__qualname__)
    if callable(value) and hasattr(value, "__qualname__"):  # a builtin function
        return str(value.__qualname__)
    if isinstance(value, nn.Module | Mapping | list | tuple | BaseData) or hasattr(
        value, "__dict__"
    ):
        return kind  # parts tell the rest
    text = repr(value)
    return kind if " at 0x" in text else text


def _parts(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, BaseData):
        value = value.to_dict()
    if isinstance(value, SparseTensor):
        yield from enumerate((value.sizes(), *value.coo()))
    elif isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, list | tuple):
        yield from enumerate(value)
    elif isinstance(value, functools.partial):
        yield from {"func": value.func, "args": value.args, "keywords": value.keywords}.items()
    elif isinstance(value, MethodType):
        yield from {"func": value.__func__, "self": value.__self__}.items()
    elif isinstance(value, FunctionType):
        yield "defaults", [value.__defaults__, value.__kwdefaults__]
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            yield name, cell.cell_contents
    elif isinstance(value, nn.Module):
        yield from _module_parts(value)
    elif not isinstance(value, (*_OPAQUE, Tensor, np.ndarray)):
        yield from _public(value).items()


def _module_parts(module: nn.Module) -> Iterator[tuple[str, Any]]:
    """List what no state dict has: configuration, frozen parameters, buffers not saved."""
    for key, value in _public(module).items():
        if key not in _KNOWN_BY_SHAPE:
            yield key, value
    for key, parameter in module.named_parameters(recurse=False):
        if not parameter.requires_grad:
            yield f"{key}.requires_grad", False
    saved = module.state_dict(keep_vars=True)
    for key, buffer in module.named_buffers(recurse=False):
        if key not in saved:
            yield key, buffer
    yield from module.named_children()


def _public(value: Any) -> dict[str, Any]:
    held = getattr(value, "__dict__", {})
    return {name: inner for name, inner in held.items() if not name.startswith("_")}


def _code_hash(code: CodeType) -> str:
    """Hash the code of a function, wherever it stands in a file."""
    constants = list(map(_constant_text, code.co_consts))
    return _short_hash(repr((code.co_code, code.co_names, constants)).encode())


def _constant_text(constant: Any) -> str:
    if isinstance(constant, CodeType):
        return _code_hash(constant)
    if isinstance(constant, tuple):
        return repr(list(map(_constant_text, constant)))
    return _text(constant)
