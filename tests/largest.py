"""How large the tensors are that torch makes meanwhile."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LargestTensor(TorchDispatchMode):
    """Watches every operation and remembers the most numbers that a result had."""

    most = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided:
                stored = leaf.untyped_storage().nbytes() // leaf.itemsize
                self.most = max(self.most, min(leaf.numel(), stored))
        return out
