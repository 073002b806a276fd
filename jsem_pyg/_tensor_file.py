"""Writes tensors and plain values to a file, and reads it without executing anything in it.

The file is a safetensors file: the tensors of the tree, the tree itself as JSON text, and in the
header a hash of both, so that damage is seen. Reading it makes tensors and plain values only.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.parameter import Parameter

from ._files import write_whole
from ._fingerprint import tensor_bytes

_VERSION = 2
_TREE = "tree"  # the name of the tensor that holds the JSON text
_HEADER = "jsem_pyg"  # the entry of the header for the rest

_FLOATS = ["float64", "float32", "float16", "bfloat16"]
_DTYPES = [*_FLOATS, "int64", "int32", "int16", "int8", "uint8", "bool"]


def save_tree(path: str | os.PathLike[str], kind: str, name: str, tree: Any) -> None:
    """Write a tree, whole or not at all; missing folders are made.

    A tree holds dense tensors, arrays, numbers, strings, None, and lists, tuples and dicts of them;
    tuples are read as lists. Errors call it `name`; `load_tree` checks its `kind`.

    Raises:
        OSError: If the file cannot be written.
    """
    from safetensors.torch import save

    tensors: dict[str, Tensor] = {}
    text = json.dumps(_to_json(name, tree, tensors))
    stored = {_TREE: torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)}
    stored |= _apart(tensors)
    write_whole(path, save(stored, {_HEADER: json.dumps(_header(kind, stored))}))


def load_tree(path: str | os.PathLike[str], kind: str) -> Any:
    """Read what `save_tree` wrote; tensors arrive on the CPU.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If it is damaged, of another kind, or of another version.
    """
    from safetensors.torch import load

    content = Path(path).read_bytes()
    try:
        stored = load(content)
        length = int.from_bytes(content[:8], "little")
        metadata = json.loads(content[8 : 8 + length])["__metadata__"]
        if json.loads(metadata[_HEADER]) != _header(kind, stored):
            raise ValueError("another kind, version or hash")
        return _from_json(json.loads(bytes(tensor_bytes(stored[_TREE]))), stored)
    except Exception as error:  # arbitrary bytes may raise any
        raise ValueError(
            f"Expected '{path}' to be a {kind} of jsem_pyg (got a file of {len(content)} bytes "
            "that is damaged, of another kind, or of another release). To fix this, delete it or "
            "give another path."
        ) from error


def _header(kind: str, tensors: dict[str, Tensor]) -> dict[str, Any]:
    """Name the kind and the version, and hash names, types, shapes and numbers of tensors."""
    running = hashlib.blake2b(digest_size=16)
    for name in sorted(tensors):
        value = tensors[name]
        running.update(repr((name, str(value.dtype), list(value.shape))).encode())
        running.update(tensor_bytes(value))
    return {"kind": kind, "version": _VERSION, "hash": running.hexdigest()}


def _apart(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Bring tensors to the CPU, contiguous and without shared memory, as safetensors requires."""
    apart, storages = {}, set()
    for name, value in tensors.items():
        value = value.detach().cpu().resolve_neg().contiguous()
        storage = value.untyped_storage().data_ptr()
        apart[name] = value.clone() if storage in storages else value
        storages.add(storage)
    return apart


def _to_json(place: str, value: Any, tensors: dict[str, Tensor]) -> Any:
    """Write plain values and lists as themselves, and all else as {kind: content}."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return {"array": _to_json(place, torch.from_numpy(value), tensors)}
    if value is None or type(value) in (bool, int, float, str):
        return value
    is_tensor = type(value) in (Tensor, Parameter) and value.layout == torch.strided
    if is_tensor and str(value.dtype).removeprefix("torch.") in _DTYPES:
        name = f"{len(tensors)} {place}"
        tensors[name] = value
        return {"tensor": name}
    if isinstance(value, list | tuple):
        return [_to_json(f"{place}[{i}]", inner, tensors) for i, inner in enumerate(value)]
    if isinstance(value, dict) and all(type(key) in (str, int) for key in value):
        items = [[key, _to_json(f"{place}.{key}", v, tensors)] for key, v in value.items()]
        return {"dict": items}
    raise TypeError(
        f"Expected '{place}' to be a dense tensor of real numbers or booleans, a number, a string "
        f"or None, or a list or dict of them (got {type(value).__qualname__})."
    )


def _from_json(content: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(content, list):
        return [_from_json(inner, tensors) for inner in content]
    if not isinstance(content, dict):
        return content
    [(kind, inner)] = content.items()
    if kind == "tensor":
        return tensors[inner]
    if kind == "array":
        return _from_json(inner, tensors).numpy()
    if kind == "dict":
        return {key: _from_json(value, tensors) for key, value in inner}
    raise ValueError(kind)
