"""Writes tensors and plain values to a file, and reads it without executing anything in it.

The file is a safetensors file: the tensors of the tree, the tree itself as JSON text, and in the
header a hash of both, so that damage is seen. Reading it makes tensors and plain values only.
"""

import hashlib
import json
import os
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.parameter import Parameter

from ._files import write_whole
from ._fingerprint import tensor_bytes

_VERSION = 1
_TREE = "tree"  # the name of the tensor that holds the JSON text
_HEADER = "jsem_pyg"  # the entry of the header for the rest

_SUPPORTED = (
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
)
_DTYPES = {str(dtype): dtype for dtype in _SUPPORTED}


def save_tree(path: str | os.PathLike[str], kind: str, name: str, tree: Any) -> None:
    """Write a tree, whole or not at all; missing folders are made.

    A tree holds dense tensors, numbers, strings, None, and lists, tuples and dicts of them. Errors
    call it `name`; `load_tree` checks its `kind`.

    Raises:
        OSError: If the file cannot be written.
    """
    content = _encode(kind, name, tree)
    write_whole(path, content)


def load_tree(path: str | os.PathLike[str], kind: str) -> Any:
    """Read what `save_tree` wrote; tensors arrive on the CPU.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If it is damaged, of another kind, or of another version.
    """
    content = Path(path).read_bytes()
    try:
        return _decode(content, kind)
    except _OtherFileError as error:
        raise ValueError(f"Expected '{path}' to be a {kind} of jsem_pyg (got {error}).") from error
    except Exception as error:  # arbitrary bytes may raise any
        raise ValueError(
            f"Expected '{path}' to be a {kind} of jsem_pyg (got a file of {len(content)} bytes "
            f"that is damaged or holds something else: {type(error).__name__}). To fix this "
            "error, delete it or give another path."
        ) from error


class _OtherFileError(Exception):
    """Says that a file is no tree of this kind and version, though perhaps a whole one."""


def _encode(kind: str, name: str, tree: Any) -> bytes:
    from safetensors.torch import save

    tensors: dict[str, Tensor] = {}
    text = json.dumps(_to_json(name, tree, tensors))
    stored = {_TREE: torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)}
    stored |= _apart(tensors)
    header = {"kind": kind, "version": _VERSION, "hash": tensors_hash(stored)}
    return save(stored, {_HEADER: json.dumps(header)})


def _decode(content: bytes, kind: str) -> Any:
    from safetensors.torch import load

    if content[:2] == b"PK":
        raise _OtherFileError("a file of torch.save, which is not read since it may hold code")
    stored = load(content)
    length = int.from_bytes(content[:8], "little")
    metadata = json.loads(content[8 : 8 + length]).get("__metadata__", {})
    if _HEADER not in metadata:
        raise _OtherFileError("a safetensors file with other contents")
    header = json.loads(metadata[_HEADER])
    if header["version"] != _VERSION:
        raise _OtherFileError(
            f"format version {header['version']}, written by another release, where this one has "
            f"{_VERSION}"
        )
    if header["kind"] != kind:
        raise _OtherFileError(f"a {header['kind']}")
    if header["hash"] != tensors_hash(stored):
        raise ValueError("the numbers are not those that were written")
    return _from_json(json.loads(bytes(tensor_bytes(stored[_TREE]))), stored)


def _apart(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Bring tensors to the CPU, contiguous and without shared memory, as safetensors requires."""
    apart, storages = {}, set()
    for name, value in tensors.items():
        value = value.detach().cpu().resolve_neg().contiguous()
        storage = value.untyped_storage().data_ptr()
        apart[name] = value.clone() if storage in storages else value
        storages.add(storage)
    return apart


def tensors_hash(tensors: dict[str, Tensor]) -> str:
    """Hash names, types, shapes and numbers of tensors."""
    running = hashlib.blake2b(digest_size=16)
    for name in sorted(tensors):
        value = tensors[name]
        running.update(repr((name, str(value.dtype), list(value.shape))).encode())
        running.update(tensor_bytes(value))
    return running.hexdigest()


def _to_json(place: str, value: Any, tensors: dict[str, Tensor]) -> Any:
    """Write plain values and lists as themselves, and all else as {kind: content}.

    Types are taken exactly: a subclass would come back as what it is not.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) in (Tensor, Parameter):
        return _tensor_to_json(place, value, tensors)
    if type(value) in (list, tuple):
        content = [_to_json(f"{place}[{i}]", inner, tensors) for i, inner in enumerate(value)]
        return content if type(value) is list else {"tuple": content}
    if type(value) in (dict, OrderedDict):
        if others := [key for key in value if type(key) not in (str, int)]:
            raise TypeError(
                f"Expected the keys of '{place}' to be strings or integers (got {others[0]!r})."
            )
        items = [[key, _to_json(f"{place}.{key}", v, tensors)] for key, v in value.items()]
        return {"dict": items}
    raise TypeError(
        f"Expected '{place}' to be a tensor, a number, a string or None, or a list, tuple or dict "
        f"of them, since a file holds nothing else (got {type(value).__qualname__}). To fix this, "
        "convert it (an array by torch.from_numpy), or leave it out."
    )


def _tensor_to_json(place: str, value: Tensor, tensors: dict[str, Tensor]) -> dict[str, Any]:
    if value.layout != torch.strided or value.dtype not in _SUPPORTED or value.is_meta:
        got = value.dtype if value.layout == torch.strided else value.layout
        raise TypeError(
            f"Expected '{place}' to be a dense tensor of real numbers or booleans (got {got} on "
            f"the device '{value.device}'). To fix this, convert it, or leave it out."
        )
    if value.numel() == 0:  # which safetensors 0.4 writes, but cannot read
        return {"empty": [str(value.dtype), list(value.shape)]}
    name = f"{len(tensors)} {place}"
    tensors[name] = value
    return {"tensor": name}


def _from_json(content: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(content, list):
        return [_from_json(inner, tensors) for inner in content]
    if not isinstance(content, dict):
        return content
    [(kind, inner)] = content.items()
    if kind == "tensor":
        return tensors[inner]
    if kind == "empty" and 0 in inner[1]:
        return torch.empty(inner[1], dtype=_DTYPES[inner[0]])
    if kind == "tuple":
        return tuple(_from_json(part, tensors) for part in inner)
    if kind == "dict":
        return {key: _from_json(value, tensors) for key, value in inner}
    raise ValueError(kind)
