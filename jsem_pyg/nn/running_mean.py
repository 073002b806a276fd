"""The mean of what a model is trained on, kept for what it meets afterwards."""

import torch
from torch import Tensor

from ..graph.rows import GraphRows

# How much a call counts at least: the mean follows the last ten calls or so, and weights that
# change.
_LEAST_SHARE = 0.1


class RunningMean(torch.nn.Module):
    r"""The mean of the rows in training, and afterwards the mean of training.

    .. math::
        m \leftarrow m + \max(0.1, 1 / n) \, (\bar{x} - m)

    in the n-th call in training mode, whose own mean :math:`\bar{x}` is what that call returns.
    In evaluation mode nothing changes, and :math:`m` is returned; the mean of the call only where
    there was no training. As :class:`torch.nn.BatchNorm1d` does, for means alone.

    Args:
        num_channels: The number C of columns.

    Shapes:
        - **input:** rows :math:`(N, C)`
        - **output:** mean :math:`(C)`

    Example:
        >>> mean = RunningMean(1)
        >>> mean(torch.tensor([[1.0], [3.0]]))
        tensor([2.])
        >>> mean.eval()(torch.tensor([[7.0]]))
        tensor([2.])
    """

    def __init__(self, num_channels: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(num_channels))
        self.register_buffer("num_calls", torch.tensor(0))
        self.mean: Tensor
        self.num_calls: Tensor

    def reset(self) -> None:
        """Forget what was seen."""
        self.mean.zero_()
        self.num_calls.zero_()

    def forward(self, rows: Tensor, graph: object = None) -> Tensor:
        """Return the mean to take off, or to divide by.

        Args:
            rows: numbers of nodes.
            graph: the graph of these nodes, where other processes may hold other rows of it.
        """
        is_shared = isinstance(graph, GraphRows) and not graph.is_whole
        mean = graph.mean(rows) if isinstance(graph, GraphRows) else rows.mean(0)
        if self.training:
            if rows.size(0) or is_shared:
                self._take_in(mean.detach())
            return mean
        # Not by an `if`, for which a GPU would have to wait.
        return torch.where(self.num_calls > 0, self.mean.to(mean.dtype), mean)

    def _take_in(self, mean: Tensor) -> None:
        self.num_calls.add_(1)
        share = self.num_calls.to(self.mean.dtype).reciprocal().clamp(min=_LEAST_SHARE)
        self.mean.lerp_(mean.to(self.mean.dtype), share)

    def extra_repr(self) -> str:
        """Return what `repr` shows between the brackets."""
        return f"{self.mean.numel()}"
