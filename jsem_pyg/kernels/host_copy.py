"""Numbers on their way from a device to the host."""

import torch
from torch import Tensor


class HostCopy:
    """A copy on the host that a GPU makes in its turn: nobody waits before the numbers are read."""

    def __init__(self, values: Tensor) -> None:
        self._event = torch.cuda.Event() if values.is_cuda else None
        self._host = torch.empty(
            values.shape, dtype=values.dtype, device="cpu", pin_memory=values.is_cuda
        )
        self._host.copy_(values.detach(), non_blocking=True)
        if self._event is not None:
            self._event.record(torch.cuda.current_stream(values.device))

    def read(self) -> Tensor:
        """Wait until the numbers are there, not for work that was queued after them."""
        if self._event is not None:
            self._event.synchronize()
        return self._host
