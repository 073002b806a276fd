"""The base of all estimators: reads X, draws the seed, builds the graph, limits threads."""

import numbers
from collections.abc import Iterator, Sized
from contextlib import contextmanager
from typing import Any, Literal

import joblib
import numpy as np
import torch
from scipy.sparse import csr_matrix, issparse
from sklearn.base import BaseEstimator
from sklearn.decomposition import TruncatedSVD
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits
from torch import Tensor

from .._checks import (
    check_choice,
    check_nonnegative,
    check_positive_int,
    check_signal_range,
    check_unmasked,
    tensor_of,
)
from .._precision import full_precision
from ..kernels.torch_func import outside_inference
from ..neighbors.affinity import KERNELS
from .columns import check_columns, choose_metric, choose_scale
from .fitted_graph import FittedGraph

_READING = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
_FEW = 5_000  # points, for which several threads would only wait for each other


@contextmanager
def limit_threads(n_jobs: int | None, num_points: int) -> Iterator[None]:
    """Within, `n_jobs` threads; None: one for up to 5,000 points, else what the libraries take."""
    if n_jobs is None and num_points > _FEW:
        yield
        return
    # Torch asks OpenMP how many, each Python thread for itself: others keep theirs. The number of
    # BLAS is one for all, which only who asks for it changes.
    only = "openmp" if n_jobs is None else None
    with threadpool_limits(joblib.effective_n_jobs(n_jobs), only):
        yield


class NeighborEstimator(BaseEstimator):
    """An estimator that stands on the neighbour graph of its points.

    Attributes:
        reducer_: the `TruncatedSVD` that sparse X went through, or None.
        n_neighbors_: neighbours of each point: `n_neighbors`, or half of the others if less.
        metric_: "cosine" or "l2".
        scale_: what the columns are divided by, [D], or None.
    """

    def __init__(
        self,
        n_neighbors: int = 15,
        *,
        metric: str = "auto",
        scale: str | None = "auto",
        t: float | Literal["auto"] = "auto",
        kernel: str | None = "gaussian",
        n_components: int = 100,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.metric = metric
        self.scale = scale
        self.t = t
        self.kernel = kernel
        self.n_components = n_components
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _fit_graph(self, X: Any, y: Any = "no_validation") -> tuple[FittedGraph, int, Any]:
        """Read X and y, and build the graph: it, a seed for what is random later, and y."""
        self._check_parameters()
        self._is_fitted = False  # until the end: parts of two fits would predict, if it fails
        read = self._validated(X, y, ensure_min_samples=3)
        X, y = read if isinstance(read, tuple) else (read, None)
        seed = self._draw_seed()
        self.reducer_ = None
        if issparse(X) and X.shape[1] > self._num_reduced:
            reducer = TruncatedSVD(self._num_reduced, random_state=seed)
            reducer.set_output(transform="default")  # whatever scikit-learn is set to
            self.reducer_ = reducer.fit(_in_order(X, X.dtype))
        self.scale_ = None
        x = self._to_tensor(X)
        self.metric_ = choose_metric(self.metric, x.numpy(), self.reducer_ is not None)
        self.scale_ = choose_scale(self.scale, x.numpy(), self.metric_)
        x = self._scaled(x)
        graph = FittedGraph(x, self.n_neighbors, self.metric_, self.kernel, seed)
        self.n_neighbors_ = graph.k
        self._dtype, self._seed = x.dtype, seed
        return graph, seed, y

    def _read_new(self, X: Any) -> Tensor:
        """Points [M, D] that come later, in the type of the fitted ones."""
        check_is_fitted(self)
        return self._to_tensor(self._validated(X, reset=False), self._dtype)

    def _validated(self, X: Any, *y: Any, **options: Any) -> Any:
        """X as scikit-learn reads it; an error about NaN says what to do."""
        _check_none_missing(X)
        try:
            return validate_data(self, X, *y, **options, **_READING)
        except ValueError as error:
            if "Input X contains NaN" not in str(error):
                raise
            raise ValueError(
                f"Input X contains NaN. {type(self).__name__} takes no missing values. To fix "
                "this, fill them in, for instance by sklearn.impute.SimpleImputer in a pipeline, "
                "or leave these rows out."
            ) from error

    def _to_tensor(self, X: Any, dtype: torch.dtype | None = None) -> Tensor:
        """A copy of X, scaled in `dtype`; a later change of X does not change the estimator."""
        if self.reducer_ is not None:
            # Row by row, unlike a product of dense X.
            X = self.reducer_.transform(_in_order(X, self.reducer_.components_.dtype))
        x = tensor_of("X", X.toarray() if issparse(X) else X)
        return self._scaled(x.to(dtype or x.dtype, copy=True))

    def _scaled(self, x: Tensor) -> Tensor:
        check_signal_range("X", x)
        if self.scale_ is not None:
            x = x / torch.from_numpy(self.scale_).to(x.dtype)
            check_signal_range("X / scale_", x)
        return x

    def _draw_seed(self) -> int:
        if isinstance(self.random_state, numbers.Integral):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _check_parameters(self) -> None:
        check_positive_int("n_neighbors", self.n_neighbors)
        check_columns(self.metric, self.scale)
        check_choice("kernel", self.kernel, KERNELS)
        check_positive_int("n_components", self.n_components)
        if not (isinstance(self.t, str) and self.t == "auto"):
            check_nonnegative("t", self.t)

    @contextmanager
    def _threads(self, X: Any) -> Iterator[None]:
        """As many as `n_jobs` allows for the rows of X, perhaps not read yet; without autocast."""
        shape = getattr(X, "shape", None) or (len(X) if isinstance(X, Sized) else 0,)
        precise = full_precision(torch.device("cpu"))
        with limit_threads(self.n_jobs, shape[0]), precise, outside_inference():
            yield

    @property
    def _num_reduced(self) -> int:
        """The columns that sparse X is reduced to."""
        return self.n_components

    def __sklearn_is_fitted__(self) -> bool:
        return getattr(self, "_is_fitted", False)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _check_none_missing(X: Any) -> None:
    """Raise a ValueError for what scikit-learn takes for numbers: masked entries, missing dates."""
    check_unmasked("X", X)
    missing = 0
    if hasattr(X, "select_dtypes"):
        dates = X.select_dtypes(["datetime", "datetimetz", "timedelta"])
        missing = int(dates.isna().to_numpy().sum())
    elif isinstance(X, np.ndarray) and X.dtype.kind in "mM":
        missing = int(np.isnat(X).sum())
    if missing:
        raise ValueError(
            f"Expected 'X' without missing dates (got {missing} NaT). To fix this, fill them in, "
            "or leave these rows out."
        )


def _in_order(X: Any, dtype: Any) -> csr_matrix:
    """Rows in CSR, whose columns ascend: the order in which a product sums them up."""
    rows = csr_matrix(X, dtype=dtype)
    if not rows.has_canonical_format:
        rows = rows.copy()  # of what may be the user's
        rows.sum_duplicates()
    return rows
