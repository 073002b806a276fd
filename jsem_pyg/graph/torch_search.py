"""Exact neighbours by plain torch, on any device: the reference of the Faiss searches."""

import torch
from torch import Tensor

# How many distances are held at once.
_CHUNK_NUMBERS = 1 << 26


def torch_nearest(
    query: Tensor, base: Tensor, k: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """For each query [Q, F] the k nearest rows of `base` [B, F], the nearest first, on any device.

    Returns the squared distances and the rows, [Q, k] each, on the CPU.

    Example:
        >>> base = torch.tensor([[0.0], [1.0], [3.0]])
        >>> torch_nearest(torch.tensor([[2.5]]), base, k=2, device=base.device)
        (tensor([[0.2500, 2.2500]]), tensor([[2, 1]]))
    """
    base = base.to(device)
    norm, parts = base.square().sum(1), []
    for chunk in query.to(device).split(max(1, _CHUNK_NUMBERS // base.size(0))):
        # What is the same for all rows comes last: it would cost digits in the comparison.
        ranked = torch.addmm(norm, chunk, base.T, alpha=-2).topk(k, largest=False)
        squared = ranked.values + chunk.square().sum(1, keepdim=True)
        parts.append((squared.cpu(), ranked.indices.cpu()))
    squared, found = (torch.cat(each) for each in zip(*parts, strict=True))
    return squared, found
