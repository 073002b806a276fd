"""Payload of the page's scripts: texts as JSON and raw arrays, in one compressed block.

The block is in base64, so that no text of a user's can be taken for HTML, whatever it holds.
"""

import base64
import gzip
import json
from collections.abc import Mapping
from typing import Any

import numpy as np


def pack(content: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    """Base64 of gzip of: the length of a header (uint32, little-endian), the header, the arrays.

    The header is JSON in ASCII: the content, and "arrays" with type, shape and place of each array
    behind the header, in bytes.

    Raises:
        ValueError: if a number is not finite, which JSON has no form for.

    Example:
        >>> block = gzip.decompress(base64.b64decode(pack({"n": 2}, {"a": np.uint8([7, 9])})))
        >>> block[4:-2].decode()
        '{"n": 2, "arrays": {"a": {"type": "uint8", "shape": [2], "start": 0}}}'
        >>> list(block[-2:])
        [7, 9]
    """
    places, parts, start = {}, [], 0
    for name, array in arrays.items():
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        kind, shape = array.dtype.name, list(array.shape)
        places[name] = {"type": kind, "shape": shape, "start": start}
        parts.append(little.tobytes())
        start += little.nbytes
    header = json.dumps({**content, "arrays": places}, allow_nan=False).encode("ascii")
    block = b"".join([len(header).to_bytes(4, "little"), header, *parts])
    return base64.b64encode(gzip.compress(block, compresslevel=6, mtime=0)).decode("ascii")
