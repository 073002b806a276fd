"""All kernel families that have several backends, in one table.

A *family* is a job that can be done in several ways, such as the evaluation of a Chebyshev series.
A *backend* is one of these ways: a module of the family's package, imported on first use. To add
one, add a module and an entry here, or, from outside of this package,
``CHEBYSHEV.backends["mine"] = Backend("my_package.my_module", my_obstacle, "what it is")``.

`jsem-pyg info` prints :data:`FAMILIES`, and :func:`lists_backends` puts a family's backends into a
docstring. A backend that is chosen by name and cannot run is an error that gives the reason.
"""

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar

import torch
from torch_geometric.typing import WITH_TORCH_SPARSE

from .._checks import check_choice
from .._extras import version_of

_log = logging.getLogger(__name__)

Obstacle = Callable[[torch.device], str | None]
T = TypeVar("T")


@dataclass(frozen=True)
class Backend:
    """One way to do a job."""

    module: str  # its full name
    obstacle: Obstacle  # the reason why it cannot run on a device, or None
    note: str = "registered by the user"  # what it is and where it runs, for docstrings


@dataclass(frozen=True)
class KernelFamily:
    """The ways to do a job, and the order in which "auto" tries them."""

    backends: dict[str, Backend]
    # "auto" takes the first of its device type that can run; `fallback` for other devices.
    preference: dict[str, tuple[str, ...]]
    fallback: str

    def check(self, name: Any) -> None:
        """Raise a ValueError unless `name` is that of a backend, or "auto"."""
        check_choice("backend", name, ("auto", *self.backends))

    def can_run(self, name: str, device: torch.device) -> bool:
        """Return True if a backend can run on a device."""
        return self.backends[name].obstacle(device) is None

    def choose(self, name: str, device: torch.device) -> str:
        """Return the backend that `name` means on a device, where it may be "auto".

        Raises:
            ValueError: if there is no such backend, or it cannot run on `device`.
        """
        self.check(name)
        if name == "auto":
            return self._best(device)
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
        return import_module(self.backends[self.choose(name, device)].module)

    def describe(self) -> str:
        """List the backends in one sentence, for docstrings."""
        listed = ", ".join(f'"{name}" ({each.note})' for name, each in self.backends.items())
        first = " or ".join(
            f"{', '.join(map(_quoted, names))} ({device.upper()})"
            for device, names in self.preference.items()
        )
        return (
            f'{listed}, or "auto": the first of these that can run: {first}, otherwise '
            f"{_quoted(self.fallback)}"
        )

    def _best(self, device: torch.device) -> str:
        """Choose the backend of "auto"; one that cannot run is logged once."""
        passed: dict[str, str] = {}
        for name in self.preference.get(device.type, ()):
            obstacle = self.backends[name].obstacle(device)
            if obstacle is None:
                break
            passed[name] = obstacle
        else:
            name = self.fallback
        for obstacle in passed.values():
            _warn_once(obstacle, name, device)
        return name


def _quoted(name: str) -> str:
    return f'"{name}"'


_warned: set[tuple[str, str]] = set()


def _warn_once(obstacle: str, taken: str, device: torch.device) -> None:
    """Log that a faster backend is passed over, once for each reason and type of device."""
    if (obstacle, device.type) not in _warned:
        _warned.add((obstacle, device.type))
        _log.warning(
            "backend='auto' takes %r, which is slower, on %r: %s.", taken, device.type, obstacle
        )


def lists_backends(family: KernelFamily) -> Callable[[T], T]:
    """Decorate a function or class: `{backends}` in its docstring becomes the family's backends.

    Example:
        >>> @lists_backends(EDGES)
        ... def sort(backend="auto"):
        ...     "backend: {backends}."
        >>> print(sort.__doc__[:29])
        backend: "torch" (any device)
    """

    def decorate(documented: T) -> T:
        if documented.__doc__ is not None:  # as under python -OO
            documented.__doc__ = documented.__doc__.replace("{backends}", family.describe())
        return documented

    return decorate


@cache
def _is_installed(package: str) -> bool:
    return find_spec(package) is not None


def no_obstacle(device: torch.device) -> str | None:
    """Return None: the backend runs anywhere."""
    return None


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


def _family(
    package: str, backends: dict[str, tuple[str, Obstacle, str]], fallback: str = "torch"
) -> KernelFamily:
    """Make a family of `jsem_pyg.kernels`: for each backend a module, an obstacle and a note."""
    entries = {
        name: Backend(f"{__package__}.{package}.{module}", obstacle, note)
        for name, (module, obstacle, note) in backends.items()
    }
    tried = {"cuda": ("triton", "torch"), "cpu": ("numba", "torch")}
    # "auto" skips what the family does not have, and a list that only repeats the fallback.
    preference = {
        device: tuple(name for name in names if name in entries and name != fallback)
        for device, names in tried.items()
    }
    return KernelFamily(
        entries, {device: names for device, names in preference.items() if names}, fallback
    )


CHEBYSHEV = _family(
    "chebyshev",
    {
        "reference": ("reference", no_obstacle, "plain torch, any device"),
        "torch": ("torch_csr", torch_csr_obstacle, "CSR products, CPU and CUDA"),
        "torch_sparse": ("torch_sparse", torch_sparse_obstacle, "torch-sparse, CPU and CUDA"),
        "numba": ("numba_cpu", numba_obstacle, "compiled, CPU"),
        "triton": ("triton_gpu", triton_obstacle, "fused kernels, CUDA"),
    },
    fallback="reference",
)
EDGES = _family(
    "edges",
    {
        "torch": ("torch_sort", no_obstacle, "any device"),
        "numba": ("numba_count", numba_obstacle, "compiled, CPU"),
    },
)
SINKHORN = _family(
    "sinkhorn",
    {
        "torch": ("torch_rows", no_obstacle, "tiles of the table, any device"),
        "numba": ("numba_cpu", numba_obstacle, "compiled, CPU"),
        "triton": ("triton_gpu", triton_obstacle, "fused kernels, CUDA"),
    },
)

# Every family, by the job that it does.
FAMILIES = {
    "diffusion (Chebyshev series)": CHEBYSHEV,
    "edge lists (sort and pair)": EDGES,
    "transport (Sinkhorn)": SINKHORN,
}
