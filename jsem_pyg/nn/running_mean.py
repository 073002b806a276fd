"""The mean of the features in training, kept with a model for the features of other graphs."""

import torch
from torch import Tensor

# The least weight of a call: the mean follows about the last ten calls, and so weights that change.
_LEAST_SHARE = 0.1


class RunningMean(torch.nn.Module):
    r"""Returns the mean [C] of the rows in training, and afterwards the mean of the training.

    .. math::
        m \leftarrow m + \max(0.1, 1 / n) \, (\bar{x} - m)

    in the n-th call in training mode; that call returns its own mean :math:`\bar{x}`.
    In evaluation mode nothing changes, and :math:`m` is returned; the mean of the call only if
    there was no training. As :class:`torch.nn.BatchNorm1d` does, for means alone.
    """

    def __init__(self, num_channels: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(num_channels))
        self.register_buffer("num_calls", torch.tensor(0))
        self.mean: Tensor
        self.num_calls: Tensor

    def reset(self) -> None:
        """Forget all calls."""
        self.mean.zero_()
        self.num_calls.zero_()

    def forward(self, rows: Tensor, mean: Tensor | None = None) -> Tensor:
        """Return the mean [C] to use; `mean` is the mean of these rows, if it is known."""
        mean = rows.mean(0) if mean is None else mean
        if self.training:
            self._take_in(mean.detach())
            return mean
        # Not by an `if`, for which a GPU would have to wait.
        return torch.where(self.num_calls > 0, self.mean.to(mean.dtype), mean)

    def _take_in(self, mean: Tensor) -> None:
        has_rows = mean.isfinite().all()  # there is no mean of none
        self.num_calls.add_(has_rows)
        share = self.num_calls.to(self.mean.dtype).reciprocal().clamp(min=_LEAST_SHARE)
        mean = torch.where(has_rows, mean.to(self.mean.dtype), self.mean)
        self.mean.lerp_(mean, share.clamp(max=1))

    def extra_repr(self) -> str:
        """Return what `repr` shows between the brackets."""
        return f"{self.mean.numel()}"
