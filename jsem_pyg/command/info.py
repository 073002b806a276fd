"""Describe the versions that are here, and which backends run, or why they do not."""

import os
import platform
from collections.abc import Iterator

import torch

from .._extras import PACKAGES, version_of
from ..kernels.table import FAMILIES


def describe() -> Iterator[str]:
    """Make the lines that `jsem-pyg info` prints."""
    yield f"Python {platform.python_version()}, {platform.platform()}\n"
    for package in PACKAGES:
        yield f"{package:<22} {version_of(package) or 'not installed'}"
    yield f"\n{'CPU':<22} {os.cpu_count()} cores, torch takes {torch.get_num_threads()} threads"
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    yield f"{'GPU':<22} {', '.join(gpus) or f'none found by torch {torch.__version__}'}"
    for kind in ("cpu", "cuda") if gpus else ("cpu",):
        yield f"\nBackends on {kind!r} (* is what 'auto' takes)"
        device = torch.device(kind)
        for name, family in FAMILIES.items():
            yield f"  {name}"
            for backend, entry in family.backends.items():
                obstacle = entry.obstacle(device)
                mark = "*" if backend == family.choose("auto", device) else " "
                runs = "runs" if obstacle is None else f"does not run: {obstacle}"
                yield f"  {mark} {backend:<14} {runs}"
