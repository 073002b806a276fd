"""Several processes at once, for tests of what they do together."""

import multiprocessing
from datetime import timedelta
from multiprocessing import forkserver

import pytest
import torch

PRELOAD = ["jsem_pyg.nn", "jsem_pyg.partition", "jsem_pyg.training", "torch_geometric.data"]


needs_gloo = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()),
    reason="this build of torch has no gloo",
)


def join(rank, size, folder):
    """Meet the other processes."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo",
        init_method=f"file://{folder}/meeting",
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=60),  # a process whose partner died ends, too
    )


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
