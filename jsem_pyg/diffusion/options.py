"""How a diffusion is to be computed, in one record that passes unchanged from door to kernel."""

from dataclasses import dataclass, replace
from typing import Any, Self

from .._checks import check_choice, check_positive
from ..kernels.table import CHEBYSHEV
from ..operators.factored import FACTORED_BACKENDS
from ..operators.hypergraph import HYPERGRAPH_NORMALIZATIONS
from ..operators.laplacian import NORMALIZATIONS

METHODS = ("auto", "dense", "csr", "incidence")


@dataclass(frozen=True)
class Accuracy:
    """How far the Chebyshev series goes."""

    degree: int | None = None  # the number of products with S; None: as many as `tol` needs
    tol: float = 1e-6  # the relative error allowed

    def __post_init__(self) -> None:
        check_positive("tol", self.tol)
        if self.degree is not None and (type(self.degree) is not int or self.degree < 0):
            raise ValueError(
                f"Expected 'degree' to be an integer >= 0 or None (got {self.degree!r})."
            )


@dataclass(frozen=True)
class HeatOptions(Accuracy):
    """Of a diffusion on a graph."""

    normalization: str | None = "sym"
    backend: str = "auto"
    self_loop: float = 0.0  # the weight of a loop that is added to every node

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("normalization", self.normalization, NORMALIZATIONS)
        CHEBYSHEV.check(self.backend)

    def for_graph(self, edge_index: Any) -> Self:
        """What "auto" means for this form of graph: a SparseTensor brings its own backend."""
        if self.backend == "auto" and type(edge_index).__name__ == "SparseTensor":
            return replace(self, backend="torch_sparse")
        return self


@dataclass(frozen=True)
class HypergraphOptions(Accuracy):
    """Of a diffusion on a hypergraph."""

    normalization: str = "sym"
    method: str = "auto"
    backend: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("normalization", self.normalization, HYPERGRAPH_NORMALIZATIONS)
        check_choice("method", self.method, METHODS)
        CHEBYSHEV.check(self.backend)
        if self.method == "incidence" and not self.can_factor:
            raise ValueError(
                f"Expected 'backend' to be {', '.join(map(repr, FACTORED_BACKENDS))} with "
                f"method='incidence', which multiplies by factors (got {self.backend!r}). To fix "
                "this, take backend='auto', or method='csr'."
            )

    @property
    def can_factor(self) -> bool:
        """Whether the backend can apply an operator by its factors."""
        return self.backend in FACTORED_BACKENDS
