"""What every test begins with."""

import pytest
import torch

THREADS = torch.get_num_threads()


@pytest.fixture(autouse=True)
def _as_many_threads_as_at_the_start():
    """Numba's parallel loops, which UMAP and scanpy run, raise torch's threads for good."""
    if torch.get_num_threads() != THREADS:
        torch.set_num_threads(THREADS)
