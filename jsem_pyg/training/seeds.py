"""Randomness without state: what is random in epoch e follows from (seed, purpose, e) alone.

So a run can be cut anywhere and continued.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from threading import RLock

import numpy as np
import torch

# There is one global generator: threads that draw from it would draw each other's numbers.
_turn = RLock()


class Purpose(IntEnum):
    """Purpose of a stream of random numbers; streams of different purposes are independent."""

    TRIPLETS = 0
    VALIDATION = 1
    MODEL = 2
    SKETCH = 3
    FOLDS = 4
    HELD_OUT = 5


def derive_seed(seed: int, purpose: Purpose, epoch: int = 0) -> int:
    """Mix a seed, a purpose and an epoch into one seed."""
    return int(np.random.SeedSequence([seed, purpose, epoch]).generate_state(1)[0])


def derive_generator(seed: int, purpose: Purpose, epoch: int = 0) -> torch.Generator:
    """Return a CPU generator for one purpose in one epoch."""
    return torch.Generator().manual_seed(derive_seed(seed, purpose, epoch))


@contextmanager
def seeded_rng(device: torch.device, seed: int, purpose: Purpose, epoch: int = 0) -> Iterator[None]:
    """Seed torch's global generators (CPU, and `device` if CUDA) within a block, then restore them.

    A model's own randomness (dropout, lazy initialisation) draws from these; the caller's state
    is neither read nor changed. Trainings in several threads take turns here.
    """
    derived = derive_seed(seed, purpose, epoch)
    devices = [device] if device.type == "cuda" else []
    with _turn, torch.random.fork_rng(devices=devices):
        # Not torch.manual_seed: it would also seed devices that are not restored.
        torch.default_generator.manual_seed(derived)
        for cuda in devices:
            with torch.cuda.device(cuda):
                torch.cuda.manual_seed(derived)
        yield
