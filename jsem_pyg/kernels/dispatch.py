"""Which backend runs, in one table. A choice that cannot run is an error that says why."""

import os
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from .._checks import check_choice
from .chebyshev.adjoint import Halves
from .csr import CSR


class ChebyshevSeries(Protocol):
    """The signature of a backend, see :mod:`jsem_pyg.kernels.chebyshev`."""

    def __call__(
        self, csr: CSR, values: Tensor, x: Tensor, coefficients: Tensor, group: Tensor | None
    ) -> Tensor:
        """Evaluate the series."""


class Backend(NamedTuple):
    """A way to evaluate a Chebyshev series."""

    module: str  # in jsem_pyg.kernels.chebyshev, imported on first use
    obstacle: Callable[[torch.device], str | None]  # why it cannot run there, or None


def _no_obstacle(device: torch.device) -> str | None:
    return None


def _torch_obstacle(device: torch.device) -> str | None:
    if device.type not in ("cpu", "cuda"):
        return f"torch has no CSR products on {device.type!r}"
    if device.type == "cpu" and not torch.backends.mkl.is_available():
        return "this build of torch has no MKL, so no CSR products on the CPU"
    return None


def _torch_sparse_obstacle(device: torch.device) -> str | None:
    if find_spec("torch_sparse") is None:
        return "torch-sparse is not installed; see the extra [sparse] in the README"
    if device.type not in ("cpu", "cuda"):
        return f"torch-sparse has no kernels for {device.type!r}"
    return None


def _numba_obstacle(device: torch.device) -> str | None:
    if find_spec("numba") is None:
        return "numba is not installed"
    if device.type != "cpu":
        return f"numba runs on the CPU, not on {device.type!r}"
    return None


def _triton_obstacle(device: torch.device) -> str | None:
    if find_spec("triton") is None:
        return "triton is not installed"
    if device.type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        return f"triton runs on CUDA, not on {device.type!r} (but for tests, by TRITON_INTERPRET=1)"
    return None


BACKENDS = {
    "reference": Backend("reference", _no_obstacle),
    "torch": Backend("torch_csr", _torch_obstacle),
    "torch_sparse": Backend("torch_sparse", _torch_sparse_obstacle),
    "numba": Backend("numba_cpu", _numba_obstacle),
    "triton": Backend("triton_gpu", _triton_obstacle),
}

# What "auto" takes: the first of these that can run. "reference" always can.
_PREFERENCE = {"cuda": ("triton", "torch", "reference"), "cpu": ("numba", "torch", "reference")}


def check_backend(name: str) -> None:
    """Raise a ValueError unless `name` is a key of the table, or "auto"."""
    check_choice("backend", name, ("auto", *BACKENDS))


def find_backend(name: str, device: torch.device) -> ChebyshevSeries:
    """The function behind a backend's name.

    Args:
        name: a key of the table, or "auto".
        device: where the tensors are.

    Raises:
        ValueError: if there is no such backend, or it cannot run on `device`.
    """
    series: ChebyshevSeries = _find_module(name, device).chebyshev_series
    return series


def find_halves(name: str, device: torch.device) -> Halves | None:
    """The two halves of a backend, or None if it leaves differentiation to autograd.

    Args:
        name: a key of the table, or "auto".
        device: where the tensors are.

    Raises:
        ValueError: if there is no such backend, or it cannot run on `device`.
    """
    return getattr(_find_module(name, device), "HALVES", None)


def _find_module(name: str, device: torch.device) -> Any:
    check_backend(name)
    if name == "auto":
        preference = _PREFERENCE.get(device.type, ("reference",))
        name = next(each for each in preference if BACKENDS[each].obstacle(device) is None)
    obstacle = BACKENDS[name].obstacle(device)
    if obstacle is not None:
        able = [each for each, entry in BACKENDS.items() if entry.obstacle(device) is None]
        raise ValueError(
            f"Expected a 'backend' that can run on {str(device)!r} (got {name!r}: {obstacle}). "
            f"These can: {', '.join(repr(each) for each in able)}."
        )
    return import_module(f"{__package__}.chebyshev.{BACKENDS[name].module}")
