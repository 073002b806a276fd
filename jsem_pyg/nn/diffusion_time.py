"""A diffusion time that is positive by construction."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Parameter


class DiffusionTime(torch.nn.Module):
    r"""One or several learnable times :math:`t = \log(1 + e^{u}) > 0`.

    Args:
        t: the initial time, > 0: a number, a list of S scales, a [D] tensor with a time for every
            channel, or an [S, D] tensor with a time for every scale and channel.
        learn: whether u is a parameter.

    Example:
        >>> DiffusionTime([1.0, 4.0])()
        tensor([1., 4.], grad_fn=<SoftplusBackward0>)
    """

    def __init__(self, t: float | Sequence[float] | Tensor, learn: bool = True) -> None:
        super().__init__()
        start = torch.as_tensor(t, dtype=torch.get_default_dtype()).detach().clone()
        if start.dim() > 2 or start.numel() == 0:
            raise ValueError(
                "Expected 't' to be a number, a list of scales, a [D] tensor of one time for each "
                f"channel or an [S, D] tensor of both (got shape {list(start.shape)})."
            )
        if not bool(((start > 0) & start.isfinite()).all()):
            raise ValueError(f"Expected 't' to be positive and finite (got {t}).")
        # A list names scales, a one-dimensional tensor channels: as [S] and as [1, D].
        is_per_channel = isinstance(t, Tensor) and start.dim() == 1
        self.register_buffer("start", start.unsqueeze(0) if is_per_channel else start)
        self.start: Tensor
        self.raw = Parameter(torch.empty_like(self.start), requires_grad=learn)
        self.reset_parameters()

    @property
    def num_scales(self) -> int:
        """S, or 1 for a single time."""
        return self.start.size(0) if self.start.dim() else 1

    @property
    def num_channels(self) -> int | None:
        """D where every channel has a time of its own, else None."""
        return self.start.size(1) if self.start.dim() == 2 else None

    def reset_parameters(self) -> None:
        """Go back to the initial times."""
        self.set(self.start)

    def set(self, t: float | Tensor) -> None:
        """Take other times > 0, in the shape of the initial ones; `reset_parameters` undoes it."""
        t = torch.as_tensor(t, dtype=self.raw.dtype, device=self.raw.device)
        with torch.no_grad():  # the inverse of softplus, without overflow for large t
            self.raw.copy_(t + torch.log(-torch.expm1(-t)))

    def forward(self) -> Tensor:
        """The times: 0-d, [S] or [S, D]."""
        return F.softplus(self.raw)

    def __repr__(self) -> str:
        return f"DiffusionTime({self})"

    def __str__(self) -> str:
        if self.num_channels is not None:
            return f"[{self.num_scales}, {self.num_channels}]"
        return f"{self.start.tolist()}"
