"""Several processes at once, for tests of what they do together."""

import multiprocessing

import torch


def run_together(function, arguments, count):
    """Call `function(rank, *arguments)` in so many processes, and wait for all.

    They are forked from one process that has imported what the function's module imports, which
    takes most of the time where each starts from nothing.
    """
    multiprocessing.get_context("forkserver").set_forkserver_preload([function.__module__])
    torch.multiprocessing.start_processes(
        function, arguments, nprocs=count, start_method="forkserver"
    )
