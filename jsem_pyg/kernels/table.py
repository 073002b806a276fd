"""Which kernel runs, as data. A choice that cannot run is an error that says why.

A *family* is a job that can be done in several ways, such as evaluating a Chebyshev series; a
*backend* is one of these ways, a module of the family's package that is imported on first use. To
add one, add a module and an entry to the family's table, or, from outside of this package,
``CHEBYSHEV.backends["mine"] = Backend("my_package.my_module", my_obstacle)``.
"""

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch

from .._checks import check_choice

_log = logging.getLogger(__name__)

Obstacle = Callable[[torch.device], str | None]


@dataclass(frozen=True)
class Backend:
    """One way to do a job: where it is, and why it cannot run on a device, or None."""

    module: str  # its full name
    obstacle: Obstacle


@dataclass(frozen=True)
class KernelFamily:
    """The ways to do a job, and which of them "auto" takes."""

    backends: dict[str, Backend]
    # For each type of device, what "auto" takes: the first that can run. On others: `fallback`.
    preference: dict[str, tuple[str, ...]]
    fallback: str

    def check(self, name: Any) -> None:
        """Raise a ValueError unless `name` is that of a backend, or "auto"."""
        check_choice("backend", name, ("auto", *self.backends))

    def can_run(self, name: str, device: torch.device) -> bool:
        """Whether a backend can run on a device."""
        return self.backends[name].obstacle(device) is None

    def choose(self, name: str, device: torch.device) -> str:
        """The backend that `name` means on a device, where it may be "auto".

        Raises:
            ValueError: if there is no such backend, or it cannot run on `device`.
        """
        self.check(name)
        if name == "auto":
            preferred = self.preference.get(device.type, ())
            return next((each for each in preferred if self.can_run(each, device)), self.fallback)
        obstacle = self.backends[name].obstacle(device)
        if obstacle is not None:
            able = ", ".join(repr(each) for each in self.backends if self.can_run(each, device))
            raise ValueError(
                f"Expected a 'backend' that can run on {str(device)!r} (got {name!r}: {obstacle}). "
                f"These can: {able}."
            )
        return name

    def find(self, name: str, device: torch.device) -> Any:
        """The module of the backend that `name` means on a device; see :meth:`choose`."""
        return import_module(self.backends[self.choose(name, device)].module)


@cache
def _is_installed(package: str) -> bool:
    return find_spec(package) is not None


def no_obstacle(device: torch.device) -> str | None:
    """Of what runs anywhere."""
    return None


def torch_csr_obstacle(device: torch.device) -> str | None:
    """Of torch's products of CSR matrices."""
    if device.type not in ("cpu", "cuda"):
        return f"torch has no CSR products on {device.type!r}"
    if device.type == "cpu" and not torch.backends.mkl.is_available():
        return "this build of torch has no MKL, so no CSR products on the CPU"
    return None


def torch_sparse_obstacle(device: torch.device) -> str | None:
    """Of torch-sparse."""
    if not _is_installed("torch_sparse"):
        return "torch-sparse is not installed; see the extra [sparse] in the README"
    if device.type not in ("cpu", "cuda"):
        return f"torch-sparse has no kernels for {device.type!r}"
    return None


def numba_obstacle(device: torch.device) -> str | None:
    """Of numba."""
    if not _is_installed("numba"):
        return "numba is not installed"
    if device.type != "cpu":
        return f"numba runs on the CPU, not on {device.type!r}"
    return _numba_failure()


@cache
def _numba_failure() -> str | None:
    """Why numba, which is installed, is of no use in this process, or None; said once."""
    failure = None
    try:
        if import_module("numba").config.DISABLE_JIT:  # which would leave intrinsics without a body
            failure = "numba is told not to compile, by NUMBA_DISABLE_JIT"
    except Exception as error:  # with a NumPy that is too new or too old for it, for example
        failure = f"numba cannot be imported, {type(error).__name__}: {error}"
    if failure:
        _log.warning("backend='auto' takes 'torch', which is slower, on the CPU: %s.", failure)
    return failure


def triton_obstacle(device: torch.device) -> str | None:
    """Of Triton."""
    if not _is_installed("triton"):
        return "triton is not installed"
    if device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        return f"triton runs on CUDA, not on {device.type!r} (but for tests, by TRITON_INTERPRET=1)"
    return None


_HERE = __package__

# Polynomials of a sparse symmetric matrix, see `kernels/chebyshev`.
CHEBYSHEV = KernelFamily(
    {
        "reference": Backend(f"{_HERE}.chebyshev.reference", no_obstacle),
        "torch": Backend(f"{_HERE}.chebyshev.torch_csr", torch_csr_obstacle),
        "torch_sparse": Backend(f"{_HERE}.chebyshev.torch_sparse", torch_sparse_obstacle),
        "numba": Backend(f"{_HERE}.chebyshev.numba_cpu", numba_obstacle),
        "triton": Backend(f"{_HERE}.chebyshev.triton_gpu", triton_obstacle),
    },
    {"cuda": ("triton", "torch"), "cpu": ("numba", "torch")},
    fallback="reference",
)

# Sorted, paired edges from a list of them, see `kernels/edges`.
EDGES = KernelFamily(
    {
        "reference": Backend(f"{_HERE}.edges.reference", no_obstacle),
        "torch": Backend(f"{_HERE}.edges.torch_sort", no_obstacle),
        "numba": Backend(f"{_HERE}.edges.numba_count", numba_obstacle),
    },
    {"cpu": ("numba",)},
    fallback="torch",
)

# Products of the rows at both ends of edges, see `kernels/edge_dot`.
EDGE_DOT = KernelFamily(
    {
        "reference": Backend(f"{_HERE}.edge_dot.reference", no_obstacle),
        "torch": Backend(f"{_HERE}.edge_dot.torch_chunks", no_obstacle),
        "numba": Backend(f"{_HERE}.edge_dot.numba_cpu", numba_obstacle),
    },
    {"cpu": ("numba",)},
    fallback="torch",
)

# Triangles, squares and curvature, see `kernels/triangles`.
TRIANGLES = KernelFamily(
    {
        "reference": Backend(f"{_HERE}.triangles.reference", no_obstacle),
        "torch": Backend(f"{_HERE}.triangles.torch_wedges", no_obstacle),
        "numba": Backend(f"{_HERE}.triangles.numba_cpu", numba_obstacle),
    },
    {"cpu": ("numba",)},
    fallback="torch",
)

# Passes over a transport plan that is not stored, see `kernels/sinkhorn`.
SINKHORN = KernelFamily(
    {
        "reference": Backend(f"{_HERE}.sinkhorn.reference", no_obstacle),
        "torch": Backend(f"{_HERE}.sinkhorn.torch_tiles", no_obstacle),
        "numba": Backend(f"{_HERE}.sinkhorn.numba_cpu", numba_obstacle),
        "triton": Backend(f"{_HERE}.sinkhorn.triton_gpu", triton_obstacle),
    },
    {"cuda": ("triton", "torch"), "cpu": ("numba", "torch")},
    fallback="torch",
)
