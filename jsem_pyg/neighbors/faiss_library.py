"""Imports Faiss on first use, since that takes long."""

from functools import cache
from typing import Any

# Faiss on a GPU finds no more neighbours than this, and looks at no more cells.
GPU_LIMIT = 2048


def import_faiss() -> Any:
    """Import Faiss."""
    import faiss

    return faiss


def has_faiss_gpu() -> bool:
    """Return True if Faiss sees a GPU; the package `faiss-cpu` never does."""
    return import_faiss().get_num_gpus() > 0


@cache
def gpu_resources() -> Any:
    """Take scratch memory on the GPU, once."""
    return import_faiss().StandardGpuResources()
