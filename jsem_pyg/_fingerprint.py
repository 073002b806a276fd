"""Describes what a result depends on by texts that are the same in every process."""

import dataclasses
import enum
import functools
import hashlib
import io
import logging
import pickle
import re
from collections.abc import Iterator, Mapping
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

_ATOMS = (bool, int, float, complex, str, bytes, range, slice, enum.Enum, torch.dtype, type)

# Packages whose objects are known by a hash of what pickle would write. (Nothing is read back.)
_PICKLED = {"array", "collections", "datetime", "decimal", "fractions", "numpy", "operator"}
_PICKLED |= {"pandas", "pathlib", "random", "re"}

# Known by their class alone: a program hangs on their attributes.
_OPAQUE = (type, ModuleType, logging.Logger)


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
    """Describe a value without its parts in one line."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # 1 and 1.0 mean the same
    if isinstance(value, torch.Generator):
        value = value.get_state()
    if isinstance(value, Tensor):
        return digest(value)
    if isinstance(value, np.ndarray) and value.dtype.isnative and value.dtype.char in "?bhilBfde":
        return digest(tensor_of("array", value))
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
    if _is_pickled(value):
        return f"{type(value).__qualname__} {_pickle_hash(value)}"
    if callable(value) and hasattr(value, "__qualname__"):  # a builtin function
        return str(value.__qualname__)
    return (getattr(value, "cls_to_become", None) or type(value)).__qualname__


def _is_pickled(value: Any) -> bool:
    of_known = type(value).__module__.partition(".")[0] in _PICKLED
    return of_known and not isinstance(value, Mapping)  # whose entries are parts


def _pickle_hash(value: Any) -> str:
    """Hash what pickle writes of a value; what cannot be written is known by its class alone."""
    written = io.BytesIO()
    pickler = pickle.Pickler(written, protocol=4)
    pickler.fast = True  # the same bytes if equal parts are one object or several
    try:
        pickler.dump(value)
    except Exception:  # whatever a class raises that cannot be pickled
        return "of unknown content"
    return _short_hash(written.getvalue())


def _parts(value: Any, deep: bool) -> Iterator[tuple[Any, Any]]:
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
        yield from _function_parts(value)
    elif callable(value) and hasattr(value, "__wrapped__"):  # by functools.cache
        yield "wrapped", value.__wrapped__
    elif isinstance(value, nn.Module):
        yield from _module_parts(value)
        if deep:
            yield "state", value.state_dict()
    elif not isinstance(value, _OPAQUE) and not _is_pickled(value) and (deep or _is_record(value)):
        yield from _public(value).items()


def _function_parts(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """List the defaults and the closure of a function."""
    if function.__defaults__ or function.__kwdefaults__:
        yield "defaults", [function.__defaults__, function.__kwdefaults__]
    names, cells = function.__code__.co_freevars, function.__closure__ or ()
    for name, cell in zip(names, cells, strict=True):
        yield name, cell.cell_contents


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
    kinds = (*_ATOMS, Tensor, SparseTensor, torch.Generator, FunctionType, BuiltinFunctionType)
    return value is None or isinstance(value, kinds) or _is_pickled(value)


def _public(value: Any) -> dict[str, Any]:
    state = object.__getstate__(value)  # a dictionary, another one of slots behind it, or None
    parts = state if isinstance(state, tuple) else (state,)
    held = {name: inner for part in parts for name, inner in (part or {}).items()}
    return {name: inner for name, inner in held.items() if not name.startswith("_")}


def _code_hash(code: CodeType) -> str:
    """Hash the code of a function, wherever it stands in a file."""
    constants = list(map(_constant_text, code.co_consts))
    return _short_hash(repr((code.co_code, code.co_names, constants)).encode())


def _constant_text(constant: Any) -> str:
    if isinstance(constant, CodeType):
        return _code_hash(constant)
    if isinstance(constant, tuple):  # names of arguments among them
        return repr(list(map(_constant_text, constant)))
    return _text(constant)
