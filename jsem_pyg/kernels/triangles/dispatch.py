"""Which kernels count. A choice that cannot run is an error that says why."""

from importlib import import_module
from importlib.util import find_spec
from typing import Protocol, cast

import torch
from torch import Tensor

from ..._checks import check_choice
from ..csr import CSR

BACKENDS = {"reference": "reference", "torch": "torch_wedges", "numba": "numba_cpu"}


class TriangleKernels(Protocol):
    """What a backend's module offers; see :mod:`.reference`."""

    def reverse_slots(self, csr: CSR) -> Tensor | None:
        """The slot of (j, i) for every slot (i, j), or None if the pattern is not symmetric."""

    def triangle_sums(self, csr: CSR, reverse: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """For every slot: the triangles, and a sum over their other sides."""

    def square_counts(self, csr: CSR) -> tuple[Tensor, Tensor]:
        """For every slot: the squares without diagonals, and their degeneracy."""


def find_kernels(backend: str, device: torch.device) -> TriangleKernels:
    """The module behind a backend's name.

    Args:
        backend: a key of the table, or "auto": "numba" on a CPU where it is installed, else
            "torch".
        device: where the tensors are.

    Raises:
        ValueError: if there is no such backend, or it cannot run on `device`.
    """
    check_choice("backend", backend, ("auto", *BACKENDS))
    has_numba = find_spec("numba") is not None
    if backend == "auto":
        backend = "numba" if has_numba and device.type == "cpu" else "torch"
    if backend == "numba" and not (has_numba and device.type == "cpu"):
        reason = "numba is not installed" if not has_numba else "numba runs on the CPU"
        raise ValueError(
            f"Expected a 'backend' that can run on {str(device)!r} (got 'numba': {reason})."
        )
    return cast(TriangleKernels, import_module(f"{__package__}.{BACKENDS[backend]}"))
