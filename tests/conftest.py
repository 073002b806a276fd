"""What every test begins with."""

import pytest
import torch
from torch_geometric.typing import WITH_TORCH_SPARSE

THREADS = torch.get_num_threads()


@pytest.fixture(autouse=True)
def _as_many_threads_as_at_the_start():
    """Numba's parallel loops, which UMAP and scanpy run, raise torch's threads for good."""
    if torch.get_num_threads() != THREADS:
        torch.set_num_threads(THREADS)


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses by marks
def pytest_collection_modifyitems(items):
    """Mark what runs on the backend "torch_sparse"; without that package, skip all so marked."""
    for item in items:
        if hasattr(item, "callspec") and "torch_sparse" in item.callspec.id:
            item.add_marker("sparse")
        if not WITH_TORCH_SPARSE and item.get_closest_marker("sparse"):
            item.add_marker(pytest.mark.skip(reason="needs torch-sparse: bash .ci/sparse"))
