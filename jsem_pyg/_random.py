"""Random numbers that follow from a seed."""

import torch


def seeded(seed: int) -> torch.Generator:
    """A CPU generator; a seed is any non-negative integer, NumPy's as well, modulo 2^64."""
    return torch.Generator().manual_seed(int(seed) % 2**64)
