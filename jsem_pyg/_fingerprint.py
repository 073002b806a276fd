"""Fingerprints of what a result depends on: texts that are the same in every process."""

import dataclasses
import datetime
import enum
import functools
import hashlib
import logging
import operator
import random
import re
from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch_geometric.data.data import BaseData
from torch_geometric.transforms import BaseTransform
from torch_geometric.typing import SparseTensor

from ._checks import tensor_of

# These follow from the shapes of the weights; lazy modules fill them in at their first call.
_KNOWN_BY_SHAPE = {"in_channels", "in_features", "num_features"}

_PLAIN = (str, bytes, bool, int, float, type(None))  # whose repr tells all
_ATOMS: tuple[type, ...] = (bool, int, float, complex, str, bytes, bytearray, range, slice)
_ATOMS += (enum.Enum, torch.dtype, type, FunctionType, Fraction, Decimal, PurePath)
_ATOMS += (datetime.date, datetime.time, datetime.timedelta)
_ATOMS += (operator.attrgetter, operator.itemgetter, operator.methodcaller)

# Objects whose content is not in public attributes, and what they hold.
_HELD: dict[type, Callable[[Any], Any]] = {
    SparseTensor: lambda matrix: (matrix.sizes(), *matrix.coo()),
    torch.Generator: lambda generator: generator.get_state(),
    np.random.Generator: lambda generator: generator.bit_generator.state,
    np.random.RandomState: lambda generator: generator.get_state(),
    random.Random: lambda generator: generator.getstate(),
    deque: list,
    array: list,
}

# Known by their class alone: a program hangs on their attributes.
_OPAQUE = (type, ModuleType, logging.Logger)


def tensor_bytes(value: Tensor) -> memoryview:
    """The numbers of a dense tensor, in order; no copy where they lie so on the CPU."""
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
    if value.layout == torch.sparse_coo:
        value = value.coalesce()
        return f"sparse {list(value.shape)}: {digest(value.indices())}, {digest(value.values())}"
    if value.layout == torch.sparse_csr:
        inner = (value.crow_indices(), value.col_indices(), value.values())
        return f"sparse {list(value.shape)}: {', '.join(map(digest, inner))}"
    if value.layout != torch.strided:
        return digest(value.to_sparse_coo())
    hashed = hashlib.blake2b(tensor_bytes(value), digest_size=8).hexdigest()
    return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)} {hashed}"


def describe(name: str, value: Any, deep: bool = False) -> dict[str, str]:
    """Return a text for `value` and for each part of it, by the name of the part.

    Seen are numbers, texts, tensors by all their numbers, functions by name and code, containers of
    these, and the public attributes of modules, dataclasses, PyG's transforms and other objects
    that hold nothing else. Others are described by their class, and a model without its weights,
    which are in its state dict. With ``deep=True`` all objects are described by their public
    attributes and the module of their class, and a model with its weights.

    Example:
        >>> describe("model", nn.Dropout(0.5))["model.p"]
        '0.5'
    """
    return dict(_describe(name, value, frozenset(), deep))


def _describe(
    name: str, value: Any, outer: frozenset[int], deep: bool
) -> Iterator[tuple[str, str]]:
    if isinstance(value, np.generic):
        value = value.item()
    yield name, f"{type(value).__module__}: {_text(value)}" if deep else _text(value)
    if id(value) in outer:  # a part of itself
        return
    for part, inner in _parts(value, deep):
        yield from _describe(f"{name}.{part}", inner, outer | {id(value)}, deep)


def _text(value: Any) -> str:
    """One line for a value without its parts."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # who writes 1 for 1.0 means the same
    if isinstance(value, Tensor):
        return digest(value)
    if isinstance(value, np.ndarray):
        return _array_text(value)
    if isinstance(value, re.Pattern):  # of which the text may be cut
        return repr((value.pattern, value.flags))
    if isinstance(value, set | frozenset):
        return repr(sorted(map(repr, value)))
    if isinstance(value, FunctionType):
        # Not the random number in the name of the module that PyG's Sequential writes for itself.
        module = re.sub("_[0-9a-f]{6}$", "", value.__module__)
        return f"{module}.{value.__qualname__} (code {_code_hash(value.__code__)})"
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if value is None or isinstance(value, _ATOMS):
        return str(value) if isinstance(value, enum.Enum) else repr(value)
    if callable(value) and hasattr(value, "__qualname__"):  # a builtin function
        return str(value.__qualname__)
    return (getattr(value, "cls_to_become", None) or type(value)).__qualname__


def _array_text(array: np.ndarray) -> str:
    """The digest of numbers, or a hash of entries of any other type."""
    if array.dtype.kind in "biuf" and array.dtype.isnative and array.dtype.itemsize <= 8:
        return digest(tensor_of("array", array))
    content = array.tobytes()
    if array.dtype.hasobject:  # of which those that are no plain value are parts
        entries = array.ravel().tolist()
        content = repr([each if isinstance(each, _PLAIN) else None for each in entries]).encode()
    hashed = hashlib.blake2b(content, digest_size=8).hexdigest()
    return f"{array.dtype} {list(array.shape)} {hashed}"


def _parts(value: Any, deep: bool) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, BaseData):
        value = value.to_dict()
    held = next((get for kind, get in _HELD.items() if isinstance(value, kind)), None)
    if held is not None:
        yield "held", held(value)
    elif isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, np.ndarray) and value.dtype.hasobject:
        entries = enumerate(value.ravel().tolist())
        yield from ((place, each) for place, each in entries if not isinstance(each, _PLAIN))
    elif _is_of_pandas(value):
        for name in ("index", "columns", "name"):
            if hasattr(value, name):
                part = getattr(value, name)
                yield name, np.asarray(part) if hasattr(part, "__array__") else part
        yield "values", np.asarray(getattr(value, "values", value))
    elif isinstance(value, list | tuple):
        yield from enumerate(value)
    elif isinstance(value, functools.partial):
        yield from {"func": value.func, "args": value.args, "keywords": value.keywords}.items()
    elif isinstance(value, MethodType):
        yield from {"func": value.__func__, "self": value.__self__}.items()
    elif isinstance(value, FunctionType):
        yield from _function_parts(value)
    elif callable(value) and hasattr(value, "__wrapped__"):  # by functools.cache
        yield "wrapped", value.__wrapped__
    elif isinstance(value, nn.Module):
        yield from _module_parts(value)
        if deep:
            yield "state", value.state_dict()
    elif not isinstance(value, _OPAQUE) and (deep or _is_record(value)):
        yield from _public(value).items()


def _function_parts(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Defaults and closure of a function."""
    if function.__defaults__ or function.__kwdefaults__:
        yield "defaults", [function.__defaults__, function.__kwdefaults__]
    names, cells = function.__code__.co_freevars, function.__closure__ or ()
    for name, cell in zip(names, cells, strict=True):
        yield name, cell.cell_contents


def _module_parts(module: nn.Module) -> Iterator[tuple[str, Any]]:
    """State outside the state dict: configuration, frozen parameters, buffers not saved."""
    yield from (
        (key, value) for key, value in _public(module).items() if key not in _KNOWN_BY_SHAPE
    )
    for key, parameter in module.named_parameters(recurse=False):
        if not parameter.requires_grad:
            yield f"{key}.requires_grad", False
    saved = module.state_dict(keep_vars=True)
    for key, buffer in module.named_buffers(recurse=False):
        if key not in saved:
            yield key, buffer
    yield from module.named_children()


def _is_record(value: Any) -> bool:
    """True if an object is described by its public attributes."""
    if dataclasses.is_dataclass(value) or isinstance(value, BaseTransform):
        return True
    return all(map(_is_plain, _public(value).values()))


def _is_plain(value: Any) -> bool:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_is_plain, value))
    if isinstance(value, functools.partial):
        return _is_plain([value.func, value.args, value.keywords])
    kinds = (*_ATOMS, *_HELD, Tensor, np.ndarray, np.generic, re.Pattern, BuiltinFunctionType)
    return value is None or isinstance(value, kinds) or _is_of_pandas(value)


def _is_of_pandas(value: Any) -> bool:
    """True for a table, a column, an index or an array of pandas, without importing pandas."""
    packages = {each.__module__.partition(".")[0] for each in type(value).__mro__}
    return "pandas" in packages and hasattr(value, "__array__")


def _public(value: Any) -> dict[str, Any]:
    state = object.__getstate__(value)  # a dictionary, another one of slots behind it, or None
    parts = state if isinstance(state, tuple) else (state,)
    held = {name: inner for part in parts for name, inner in (part or {}).items()}
    return {name: inner for name, inner in held.items() if not name.startswith("_")}


def _code_hash(code: CodeType) -> str:
    """A hash of the code of a function, independent of its place in a file."""
    constants = list(map(_constant_text, code.co_consts))
    content = repr((code.co_code, code.co_names, constants))
    return hashlib.blake2b(content.encode(), digest_size=8).hexdigest()


def _constant_text(constant: Any) -> str:
    if isinstance(constant, CodeType):
        return _code_hash(constant)
    if isinstance(constant, tuple):  # names of arguments among them
        return repr(list(map(_constant_text, constant)))
    return _text(constant)
