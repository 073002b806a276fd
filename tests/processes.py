"""Several processes at once, for tests of what they do together."""

import multiprocessing
from multiprocessing import forkserver

import pytest
import torch

PRELOAD = ["jsem_pyg.nn", "jsem_pyg.partition", "jsem_pyg.training", "torch_geometric.data"]


def run_together(function, arguments, count):
    """Call `function(rank, *arguments)` in so many processes, and wait for all.

    They are forked from one process that has imported the package, which takes most of the time
    where each starts from nothing. (A module of the tests would not be found there, in silence:
    that process does not get `sys.path`.)
    """
    multiprocessing.get_context("forkserver").set_forkserver_preload(PRELOAD)
    with pytest.MonkeyPatch.context() as patch:
        # PyG asks for a GPU where it is imported, and no fork could use that any more.
        patch.setenv("CUDA_VISIBLE_DEVICES", "")
        forkserver.ensure_running()
    torch.multiprocessing.start_processes(
        function, arguments, nprocs=count, start_method="forkserver"
    )
