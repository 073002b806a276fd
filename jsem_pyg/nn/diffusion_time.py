"""A diffusion time that is positive by construction."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Parameter


class DiffusionTime(torch.nn.Module):
    r"""One or several learnable times :math:`t = \log(1 + e^{u}) > 0`.

    Args:
        t: the initial time, > 0: a number, a list or [S] tensor of scales, or an [S, D] tensor with
            a time for every scale and channel.
        learn: whether u is a parameter.

    Raises:
        ValueError: if a time is not positive and finite, or the shape is another.

    Example:
        >>> DiffusionTime([1.0, 4.0])()
        tensor([1., 4.], grad_fn=<SoftplusBackward0>)
    """

    def __init__(self, t: float | Sequence[float] | Tensor, learn: bool = True) -> None:
        super().__init__()
        if isinstance(t, Tensor):
            t = t.detach()
            if t.is_meta:
                raise ValueError(
                    "Expected 't' to have values (got a tensor on the device 'meta'). To fix this, "
                    "make it with device='cpu', or pass a list."
                )
        # On the CPU, also where a layer is made on the device "meta", which has no values.
        start = torch.as_tensor(t, dtype=torch.float64, device="cpu")
        if start.dim() > 2 or start.numel() == 0:
            raise ValueError(
                "Expected 't' to be a number, a list or tensor of S scales, or an [S, D] tensor of "
                f"scales and channels (got shape {list(start.shape)})."
            )
        if not bool(((start > 0) & start.isfinite()).all()):
            raise ValueError(f"Expected 't' to be positive and finite (got {start.tolist()}).")
        self._start = start.tolist()
        self.raw = Parameter(torch.empty(start.shape), requires_grad=learn)
        self.reset_parameters()

    @property
    def num_scales(self) -> int:
        """S, or 1 for a single time."""
        return self.raw.size(0) if self.raw.dim() else 1

    @property
    def num_channels(self) -> int | None:
        """D where every channel has a time of its own, else None."""
        return self.raw.size(1) if self.raw.dim() == 2 else None

    def reset_parameters(self) -> None:
        """Go back to the initial times."""
        self.set(torch.tensor(self._start, dtype=torch.float64, device="cpu"))

    def set(self, t: float | Tensor) -> None:
        """Take other times > 0, in the shape of the initial ones; `reset_parameters` undoes it."""
        t = torch.as_tensor(t, dtype=torch.float64)
        with torch.no_grad():  # the inverse of softplus, without overflow for large t
            self.raw.copy_(t + torch.log(-torch.expm1(-t)))

    def forward(self) -> Tensor:
        """The times: 0-d, [S] or [S, D]."""
        return F.softplus(self.raw)

    def __repr__(self) -> str:
        return f"DiffusionTime({self})"

    def __str__(self) -> str:
        return str(self._start if self.num_channels is None else list(self.raw.shape))
