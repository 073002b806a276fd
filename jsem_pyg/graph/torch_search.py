"""Exact neighbours by plain torch, on any device: the reference of the Faiss searches."""

import torch
from torch import Tensor

# How many distances are held at once.
_CHUNK_NUMBERS = 1 << 26


def torch_nearest(query: Tensor, base: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Squared distances and rows [Q, k] of the nearest rows of `base`, on the CPU."""
    norm, parts = base.square().sum(1), []
    for chunk in query.split(max(1, _CHUNK_NUMBERS // base.size(0))):
        squared = torch.addmm(norm, chunk, base.T, alpha=-2)
        parts.append((squared + chunk.square().sum(1, keepdim=True)).topk(k, largest=False))
    return torch.cat([part.values for part in parts]), torch.cat([part.indices for part in parts])


def torch_neighbors(query: Tensor, base: Tensor, k: int, device: torch.device) -> Tensor:
    r"""For each query the k nearest rows of `base`, by Euclidean distance.

    Ranks by :math:`\|b\|^2 - 2 \langle q, b \rangle`, which differs from the squared distance by
    the same number for all b.

    Args:
        query: [Q, F] float32.
        base: [B, F] float32, B >= k.
        k: how many rows.
        device: where to search; the inputs need not be there.

    Returns:
        [Q, k] rows of `base`, the nearest first, on the CPU.

    Example:
        >>> base = torch.tensor([[0.0], [1.0], [3.0]])
        >>> torch_neighbors(torch.tensor([[2.5]]), base, k=2, device=base.device)
        tensor([[2, 1]])
    """
    base = base.to(device)
    norm = base.square().sum(1)
    chunks = query.split(max(1, _CHUNK_NUMBERS // base.size(0)))
    found = [
        torch.addmm(norm, chunk.to(device), base.T, alpha=-2).topk(k, largest=False).indices.cpu()
        for chunk in chunks
    ]
    return torch.cat(found)
