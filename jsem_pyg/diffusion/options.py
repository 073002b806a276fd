"""The options of a diffusion, in one record that passes unchanged from the call to the kernel."""

from collections.abc import Collection
from dataclasses import dataclass

from .._checks import check_choice, check_nonnegative, check_positive
from ..kernels.table import CHEBYSHEV, FACTORED, KernelFamily
from ..operators.laplacian import NORMALIZATIONS

# The normalisations and backends of each kind of operator.
DOMAINS: dict[str, tuple[Collection[str | None], KernelFamily]] = {
    "graph": (NORMALIZATIONS, CHEBYSHEV),
    "hypergraph": (("sym", "rw"), FACTORED),
    "complex": ((None,), FACTORED),
}


@dataclass(frozen=True)
class HeatOptions:
    """The options of a diffusion on a graph, hypergraph, complex, or another domain; checked."""

    degree: int | None = None  # the number of products with S; None: as many as `tol` needs
    tol: float = 1e-6  # the relative error allowed
    normalization: str | None = "sym"
    backend: str = "auto"
    self_loop: float = 0.0  # the weight of a loop that is added to every node of a graph
    domain: str = "graph"  # a key of DOMAINS

    def __post_init__(self) -> None:
        check_positive("tol", self.tol)
        check_nonnegative("self_loop", self.self_loop)
        if self.degree is not None and (type(self.degree) is not int or self.degree < 0):
            raise ValueError(f"Expected 'degree' to be None or an int >= 0 (got {self.degree!r}).")
        normalizations, backends = DOMAINS[self.domain]
        check_choice("normalization", self.normalization, normalizations)
        backends.check(self.backend)
