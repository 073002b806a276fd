"""The options of a diffusion, in one record that passes unchanged from the call to the kernel."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from .._checks import check_choice, check_nonnegative, check_positive
from ..kernels.table import CHEBYSHEV, KernelFamily
from ..operators.factored import FACTORED
from ..operators.hodge import HODGE_NORMALIZATIONS
from ..operators.hypergraph import HYPERGRAPH_NORMALIZATIONS
from ..operators.laplacian import NORMALIZATIONS

METHODS = ("auto", "dense", "csr", "incidence")


class Domain(NamedTuple):
    """The words that a kind of operator takes."""

    normalizations: Collection[str | None]
    backends: KernelFamily


DOMAINS = {
    "graph": Domain(NORMALIZATIONS, CHEBYSHEV),
    "hypergraph": Domain(HYPERGRAPH_NORMALIZATIONS, CHEBYSHEV),
    "complex": Domain(HODGE_NORMALIZATIONS, FACTORED),
}


@dataclass(frozen=True)
class HeatOptions:
    """The options of a diffusion on a graph, hypergraph, complex, or another domain; checked."""

    degree: int | None = None  # the number of products with S; None: as many as `tol` needs
    tol: float = 1e-6  # the relative error allowed
    normalization: str | None = "sym"
    backend: str = "auto"
    self_loop: float = 0.0  # the weight of a loop that is added to every node of a graph
    method: str = "auto"  # how the series of a hypergraph is evaluated
    domain: str = "graph"  # a key of DOMAINS

    def __post_init__(self) -> None:
        check_positive("tol", self.tol)
        check_nonnegative("self_loop", self.self_loop)
        if self.degree is not None and (type(self.degree) is not int or self.degree < 0):
            raise ValueError(
                f"Expected 'degree' to be an integer >= 0 or None (got {self.degree!r})."
            )
        normalizations, backends = DOMAINS[self.domain]
        check_choice("normalization", self.normalization, normalizations)
        check_choice("method", self.method, METHODS)
        backends.check(self.backend)
        if self.method == "incidence" and not self.can_factor:
            raise ValueError(
                f"Expected 'backend' to be 'auto', {', '.join(map(repr, FACTORED.backends))} with "
                f"method='incidence', which multiplies by factors (got {self.backend!r}). To fix "
                "this, take backend='auto', or method='csr'."
            )

    @property
    def can_factor(self) -> bool:
        """True if the backend can apply an operator by its factors."""
        return self.backend in ("auto", *FACTORED.backends)
