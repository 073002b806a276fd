"""All kernel families that have several backends, in one table.

A *family* is a job that can be done in several ways, such as the evaluation of a Chebyshev series.
A *backend* is one of these ways: a module, imported on first use. To add one, add a module and an
entry here, or, from outside of this package, ``CHEBYSHEV.backends["mine"] =
Backend("my_package.my_module")``. `jsem-pyg info` prints :data:`FAMILIES`.
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
from torch_geometric.typing import WITH_TORCH_SPARSE

from .._checks import check_choice
from .._extras import version_of

_log = logging.getLogger(__name__)

Obstacle = Callable[[torch.device], str | None]
_imported = cache(import_module)  # in sys.modules it may be half done, by another thread


@dataclass(frozen=True)
class Backend:
    """One way to do a job: the name of its module, and why it cannot run on a device, or None."""

    module: str
    obstacle: Obstacle = lambda device: None


@dataclass(frozen=True)
class KernelFamily:
    """The ways to do a job. "auto" takes the first that can run; the last one runs anywhere."""

    backends: dict[str, Backend]

    def check(self, name: Any) -> None:
        """Raise a ValueError unless `name` is that of a backend, or "auto"."""
        check_choice("backend", name, ("auto", *self.backends))

    def can_run(self, name: str, device: torch.device) -> bool:
        """Return True if a backend can run on a device."""
        return self.backends[name].obstacle(device) is None

    def choose(self, name: str, device: torch.device) -> str:
        """Return the backend that `name` means on a device, where it may be "auto"."""
        if name == "auto":
            name = next(each for each in self.backends if self.can_run(each, device))
            if device.type == "cuda" and name != "triton" and "triton" in self.backends:
                _say_once_that_it_is_slower(name, self.backends["triton"].obstacle(device))
            return name
        self.check(name)
        obstacle = self.backends[name].obstacle(device)
        if obstacle is not None:
            able = ", ".join(repr(each) for each in self.backends if self.can_run(each, device))
            raise ValueError(
                f"Expected a 'backend' that can run on {str(device)!r} (got {name!r}: {obstacle}). "
                f"These can: {able}."
            )
        return name

    def find(self, name: str, device: torch.device) -> Any:
        """Return the module of the backend that `name` means on a device; see :meth:`choose`."""
        return _imported(self.backends[self.choose(name, device)].module)


@cache
def _say_once_that_it_is_slower(name: str, obstacle: str | None) -> None:
    _log.warning("backend='auto' takes %r, which is slower, on 'cuda': %s.", name, obstacle)


@cache
def _is_installed(package: str) -> bool:
    return find_spec(package) is not None


def torch_csr_obstacle(device: torch.device) -> str | None:
    """Say why torch's products of CSR matrices cannot run on a device."""
    if device.type not in ("cpu", "cuda"):
        return f"torch has no CSR products on {device.type!r}"
    if device.type == "cpu" and not torch.backends.mkl.is_available():
        return "this build of torch has no MKL, so no CSR products on the CPU"
    return None


def torch_sparse_obstacle(device: torch.device) -> str | None:
    """Say why torch-sparse, as far as PyG could import it, cannot run on a device."""
    if not WITH_TORCH_SPARSE:
        state = "cannot be imported" if _is_installed("torch_sparse") else "is not installed"
        return f"torch-sparse {state}; it is the extra [sparse], built against the installed torch"
    if device.type not in ("cpu", "cuda"):
        return f"torch-sparse has no kernels for {device.type!r}"
    return None


def numba_obstacle(device: torch.device) -> str | None:
    """Say why numba cannot run on a device."""
    return None if device.type == "cpu" else f"numba runs on the CPU, not on {device.type!r}"


_FIRST_TRITON = "3.6"  # 3.4, of torch 2.8, multiplies no matrices of float64


def triton_obstacle(device: torch.device) -> str | None:
    """Say why Triton cannot run on a device."""
    if not _is_installed("triton"):
        return "triton is not installed"
    if device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        return f"triton runs on CUDA, not on {device.type!r} (except in tests, TRITON_INTERPRET=1)"
    return _age_of_triton()


@cache  # a layer asks in every call
def _age_of_triton() -> str | None:
    version = version_of("triton") or _FIRST_TRITON  # another package may bring it
    if tuple(map(int, version.split(".")[:2])) < tuple(map(int, _FIRST_TRITON.split("."))):
        return f"triton {version} is older than {_FIRST_TRITON}"
    return None


CHEBYSHEV = KernelFamily(
    {
        "numba": Backend("jsem_pyg.kernels.chebyshev.numba_cpu", numba_obstacle),
        "triton": Backend("jsem_pyg.kernels.chebyshev.triton_gpu", triton_obstacle),
        "torch": Backend("jsem_pyg.kernels.chebyshev.torch_csr", torch_csr_obstacle),
        "torch_sparse": Backend("jsem_pyg.kernels.chebyshev.torch_sparse", torch_sparse_obstacle),
        "reference": Backend("jsem_pyg.kernels.chebyshev.reference"),
    }
)
# Those that can multiply by factors.
FACTORED = KernelFamily({name: CHEBYSHEV.backends[name] for name in ("torch", "reference")})
SINKHORN = KernelFamily(
    {
        "numba": Backend("jsem_pyg.kernels.sinkhorn.numba_cpu", numba_obstacle),
        "triton": Backend("jsem_pyg.kernels.sinkhorn.triton_gpu", triton_obstacle),
        "torch": Backend("jsem_pyg.kernels.sinkhorn.torch_rows"),
    }
)

# Every family, by the job that it does.
FAMILIES = {"diffusion (Chebyshev series)": CHEBYSHEV, "transport (Sinkhorn)": SINKHORN}
