"""Time, memory and errors of epochs on a GPU, or in a rehearsal on the CPU; for gpu_epoch.py."""

import statistics
import textwrap
import time
import traceback
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import torch
from reporting import PeakMemory
from torch import Tensor
from training_epoch import Epoch

Note = Callable[..., None]


def now(device: str) -> torch.cuda.Event | float:
    if device == "cpu":
        return time.perf_counter()
    event = torch.cuda.Event(enable_timing=True)
    event.record()
    return event


def between(first: torch.cuda.Event | float, second: torch.cuda.Event | float) -> float:
    if isinstance(first, float):
        return second - first
    second.synchronize()
    return first.elapsed_time(second) / 1e3


def peak(work: Callable[[], object], device: str) -> float:
    """The most memory beyond that at the start, in MB."""
    if device == "cpu":
        memory = PeakMemory()
        work()
        return memory.stop() / 1e6
    base = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    work()
    return (torch.cuda.max_memory_allocated() - base) / 1e6


def bandwidth(device: str) -> float:
    """Bytes a second that a copy reads and writes."""
    source = torch.ones((1 << 28) if device != "cpu" else (1 << 16), device=device)
    target = torch.empty_like(source)
    best = float("inf")
    for _ in range(5):
        start = now(device)
        target.copy_(source)
        best = min(best, between(start, now(device)))
    return 2 * source.numel() * source.element_size() / best


def run_epoch(epoch: Epoch, x: Tensor, weight: Tensor) -> list[Tensor]:
    leaves = [x.clone(), weight.clone(), torch.tensor(5.0)]
    leaves = [leaf.requires_grad_() for leaf in leaves]
    out = epoch(*leaves)
    out.backward(x)  # against which no part of the slope in t cancels another
    return [out.detach(), *(leaf.grad for leaf in leaves)]


def seconds(epoch: Epoch, x: Tensor, weight: Tensor, repeats: int) -> dict[str, float]:
    """Medians of the time forward and backward, apart; and the peak of memory of an epoch."""
    device = x.device.type
    leaves = [x.clone(), weight.clone(), torch.tensor(5.0)]
    leaves = [leaf.requires_grad_() for leaf in leaves]
    timings = []
    warm_up = min(3, repeats)
    for repeat in range(repeats + warm_up):
        marks = [now(device)]
        out = epoch(*leaves)
        marks.append(now(device))
        if out.requires_grad:
            torch.autograd.grad(out, leaves, torch.ones_like(out), allow_unused=True)
        marks.append(now(device))
        if repeat >= warm_up:
            timings.append([between(*pair) for pair in pairwise(marks)])
    forward, backward = (1e3 * statistics.median(each) for each in zip(*timings, strict=True))
    found = {"forward ms": forward}
    if out.requires_grad:
        found |= {"backward ms": backward, "epoch ms": forward + backward}
        found["peak MB"] = peak(lambda: run_epoch_once(epoch, leaves), device)
    return found


def run_epoch_once(epoch: Epoch, leaves: list[Tensor]) -> None:
    out = epoch(*leaves)
    torch.autograd.grad(out, leaves, torch.ones_like(out), allow_unused=True)


def error(found: Tensor, wanted: Tensor) -> float:
    found, wanted = found.double(), wanted.double()
    return float((found - wanted).norm() / wanted.norm().clamp_min(1e-300))


def too_large(found: float, tol: float) -> str | None:
    return None if found <= tol else f"an error of {found:.2g}, where {tol:g} is allowed"


def last_line(problem: BaseException) -> str:
    """The last line of a traceback, or its beginning, and where it was raised."""
    frames = traceback.extract_tb(problem.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    line = traceback.format_exception_only(problem)[-1].strip().split("\n")[0]
    return textwrap.shorten(line, 100) + where
