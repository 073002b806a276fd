"""Which kernels count. A choice that cannot run is an error that says why."""

from importlib import import_module
from importlib.util import find_spec
from typing import Protocol, cast

import torch
from torch import Tensor

from ..._checks import check_choice
from ..csr import CSR, SymmetricCSR

BACKENDS = {"reference": "reference", "torch": "torch_wedges", "numba": "numba_cpu"}


class TriangleKernels(Protocol):
    """What a backend's module offers; see :mod:`.reference`."""

    def read_edges(self, row: Tensor, col: Tensor, num_nodes: int) -> SymmetricCSR | None:
        """The pattern, the slot of each reverse, and the place of each slot in the list."""

    def triangle_counts(self, csr: CSR, reverse: Tensor) -> Tensor:
        """For every slot: the triangles."""

    def forman(
        self, csr: CSR, reverse: Tensor, weight: Tensor | None, with_triangles: bool
    ) -> Tensor | None:
        """For every slot: the curvature, one-dimensional or augmented."""

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
