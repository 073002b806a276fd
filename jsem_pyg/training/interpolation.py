r"""Values at a few nodes -> a mean and a deviation at every node, by a Gaussian process.

Before anything is observed, a signal is normal with a constant mean :math:`\mu` and the covariance

.. math::
    a^2 \, \mathbf{K} / \kappa, \qquad \mathbf{K} = f(\mathbf{L}_{\theta}), \qquad
    f(\lambda) = e^{-t \lambda} \quad \mathrm{or} \quad (1 + t \lambda)^{-\nu}

with :math:`\kappa` the mean of the diagonal of K at the observed nodes. Observations have noise of
the variance :math:`r a^2`. With :math:`\mathbf{A} = \mathbf{K}_{oo} / \kappa + r \mathbf{I}`, the
mean and the amplitude a have formulas, for each column. The time t, the ratio r and the parameters
:math:`\theta` of a conductance are those of all columns.

A few values hardly tell how smooth and how noisy a signal is, so that the most likely t and r alone
promise too much: means and variances are averages over a grid of kernels, Laplacians, times and
ratios, weighted by the likelihood after the mean and the amplitude are integrated out. Sixteen
points, at even quantiles of the weights, stand for the grid. Where columns are many, the weights
are on the most likely point, which the gradient finds from the best places of the grid, together
with :math:`\theta`. Parameters have a wide normal prior around their start, since edges that all
signals agree on would else open or close without end.
"""

import copy
import itertools
import math
import warnings
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order
from torch import Tensor
from torch.nn import Module, Parameter
from torch.nn.functional import max_pool2d
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch.utils.checkpoint import checkpoint
from torch_geometric.data import Data

from .._checks import (
    check_choice,
    check_dense,
    check_finite,
    check_instance,
    check_mask,
    check_nonnegative_int,
    check_positive,
    check_positive_int,
    read_nodes,
    real_numbers,
    tensor_of,
)
from ..diffusion.filter_coefficients import cosine_coefficients
from ..diffusion.filters import FromFunction
from ..graph import GraphStructure
from ..graph.reader import check_data, read_data
from ..operators.laplacian import laplacian_entries, scipy_matrix

_EXPONENTS = (1.0, 1.5, 2.5, 3.5)  # nu: 1 is that of rough signals on paths, 3.5 nearly heat
_TIMES = np.geomspace(0.03, 1e3, 31)  # over the mean degree
_LOG_NOISES = torch.linspace(-13, 6, 77, dtype=torch.float64)  # of r
_PEAKS, _LOWER = 3, 3.0  # so many peaks of the grid are climbed, if no lower than the highest by
_USUAL = (-3.0, -1.0)  # log r, to start from as well where edges are learned
_POINTS = 16  # points of the grid that are averaged
_LARGEST_DENSE = 2_000  # nodes of a graph with exact variances; on larger graphs they are sampled
_PANEL, _PANEL_SIZE = 256, 2**25  # columns that are diffused at once, and numbers in them
_NARROW = 64  # of the panels from which only a few rows are taken
_SAMPLES = 256  # draws of the process on large graphs
_LEAVING = 0.1  # edges that leave a part of a graph, over its nodes, if it stands for the graph
_LEAST_NOISE = 2e-6  # r, so that A has a Cholesky factor
_TOL = 1e-9  # of the kernel, below what r adds to it
_ROUNDING = 1e-12  # of values that are equal, relative
_PRIOR = 3.0  # standard deviation of a conductance's parameters around their start


class Interpolation(NamedTuple):
    """A signal at every node, and the kernels that it was interpolated by."""

    mean: Tensor  #: [N] or [N, S]
    deviation: Tensor  #: [N] or [N, S] standard deviation of the signal, without noise
    t: float  #: time of the most likely kernel
    amplitude: Tensor  #: [] or [S] standard deviation of the signal before anything is observed
    noise: Tensor  #: [] or [S] standard deviation of the noise of observations
    conductance: Tensor | None  #: [E] in the order of `edge_index`; None if it is not learned
    log_likelihood: float  #: of the most likely kernel, noise and conductance
    shares: dict[tuple[str | float, str | None], float]  #: of each (kernel, normalization) in it


class _Kernel(NamedTuple):
    """A function of a Laplacian, up to its time."""

    form: str | float  # "heat" or the exponent
    normalization: str | None

    def __call__(self, t: Tensor | float, value: Tensor) -> Tensor:
        """Return f(lambda)."""
        if isinstance(self.form, str):
            return torch.exp(-t * value)
        return (1 + t * value) ** -self.form


class _Point(NamedTuple):
    """A kernel with its time and ratio, and its weight in the average."""

    kernel: _Kernel
    t: float
    r: float
    weight: float


def interpolate(
    data: Data,
    values: Any,
    observed: Any = None,
    *,
    kernel: str | float = "auto",
    conductance: Module | None = None,
    t: float | None = None,
    normalization: str | None = "auto",
    max_fitted: int = 500,
    seed: int = 0,
) -> Interpolation:
    r"""Interpolate a signal from a few nodes to all, with its uncertainty (kriging on a graph).

    A Gaussian process whose kernel is a function of the graph's Laplacian. How likely kernels,
    times and noises make the observed values is their weight in the answer, so that deviations
    hold also where values hardly tell how smooth the signal is. No nodes are needed for validation.

    Args:
        data: A graph with `edge_index` [2, E], both directions, optionally `edge_weight` [E], and
            `edge_attr` [E, F] for a conductance. It is not changed.
        values: [M], or [M, S] for S signals with the same kernel, such as snapshots of a network,
            each with an amplitude and a noise of its own in one ratio. Rows of NaN are gaps.
            Tensors, arrays and lists are taken.
        observed: [M] the nodes where they were observed, each once, or a mask [N] of them beside
            their values [M] or those of all nodes [N]. None: values are [N], with NaN at the gaps.
        kernel: "heat", :math:`e^{-t \lambda}`, for very smooth signals; an exponent :math:`\nu`
            (or "matern", 1.5) for :math:`(1 + t \lambda)^{-\nu}`, the smoother, the larger;
            "auto", the exponents 1, 1.5, 2.5 and 3.5, averaged by their weight.
        conductance: A module `(edge_attr)` -> [E] in (0, 1], such as
            :class:`~jsem_pyg.nn.SigmoidConductance`, trained in place by the most likely kernel.
            None: weights as given.
        t: The time to start from, > 0. None: the likelihood is climbed from its highest peaks
            among 31 times and 77 noises.
        normalization: "sym", or None for the Laplacian D - W, which often suits grids and meshes,
            "sym" graphs whose degrees differ much; "auto", both, averaged by their weight.
        max_fitted: Of more observed nodes, only this number is used to fit time, noise and
            conductance: neighbours in a part of the graph if few edges leave that part, as on road
            networks and meshes, else random ones. Mean and deviation follow from all.
        seed: Of what is drawn. On graphs of more than 2,000 nodes deviations are estimated from 256
            draws of the process, within four per cent.

    Returns:
        A record with `mean` and `deviation` [N] or [N, S], `t`, `amplitude` and `noise` [] or [S],
        `conductance` [E], `log_likelihood`, and `shares`, which kernels the answer is made of.

    Sources: Rasmussen and Williams, "Gaussian processes for machine learning", 2006, equations 5.8
    and 5.3; Borovitskiy et al., "Matern Gaussian processes on graphs", 2021; Wilson et al.,
    "Efficiently sampling functions from Gaussian process posteriors", 2020, for draws.

    Example:
        >>> path = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
        >>> graph = Data(edge_index=torch.cat([path, path.flip(0)], 1), num_nodes=5)
        >>> values, observed = torch.tensor([0.0, 1.0, 4.0]), torch.tensor([0, 1, 4])
        >>> found = interpolate(graph, values, observed)
        >>> bool(1 < found.mean[2] < found.mean[3] < 4)
        True
        >>> int(found.deviation[:3].argmax())  # farther from what was observed
        2
    """
    if isinstance(kernel, str):
        check_choice("kernel", kernel, ("auto", "heat", "matern"))
    else:
        check_positive("kernel", kernel)
    named: dict[str | float, tuple[str | float, ...]] = {"auto": _EXPONENTS, "matern": (1.5,)}
    forms = named.get(kernel, (kernel,))
    check_choice("normalization", normalization, ("auto", "sym", None))
    laplacians = ("sym", None) if normalization == "auto" else (normalization,)
    kernels = [_Kernel(form, each) for each in laplacians for form in forms]
    check_positive_int("max_fitted", max_fitted)
    check_nonnegative_int("seed", seed)
    if t is not None:
        check_positive("t", t)
    if conductance is not None:
        check_instance("conductance", conductance, Module, "a module or None")
    # Trained in float64, and given back in its own type.
    trained = None if conductance is None else copy.deepcopy(conductance).double()
    process = _Process(data, kernels, trained)
    values, observed = _read_values(values, observed, process.structure.num_nodes)
    y = values.double().reshape(len(values), -1)
    varies = (y.amax(0) - y.amin(0)) > _ROUNDING * y.abs().amax(0)
    y, shift = (y - y[0]) * varies, y[0]
    if not bool(varies.all()):
        warnings.warn(
            f"Equal numbers in 'values' do not tell how a signal varies ({int((~varies).sum())} of "
            f"{len(varies)} columns): the number is given back at all nodes, and its deviation of "
            "zero says nothing.",
            stacklevel=2,
        )
    generator = torch.Generator().manual_seed(seed)
    some = torch.randperm(len(y), generator=generator)[:max_fitted]
    fitted, place, part = process, observed, None
    if len(some) < len(y):
        part = _part_around(process.structure, observed, int(some[0]), max_fitted)
    if part is not None:
        fitted = _Process(data.subgraph(part), kernels, trained)
        place = torch.searchsorted(part, observed).clamp(max=len(part) - 1)
        some = part[place] == observed
    varies_at_all = bool(varies.any())
    log_likelihood = fitted.fit(y[some][:, varies], place[some], t) if varies_at_all else math.nan
    process.best, process.grid = fitted.best, fitted.grid
    with torch.no_grad():
        points = process.points(max(1, _POINTS * min(len(y), max_fitted) // len(y)))
        mean, deviation, amplitude = process.condition(y, observed, points, generator)
        mean += shift
        noise = amplitude * math.sqrt(process.best.r)
        h = None if trained is None else trained(process.edge_attr).to(values.dtype)
    if conductance is not None and trained is not None:
        conductance.load_state_dict(trained.state_dict())
    shape = -1, *values.shape[1:]
    return Interpolation(
        mean.reshape(shape).to(values.dtype),
        deviation.reshape(shape).to(values.dtype),
        process.best.t,
        amplitude.reshape(shape[1:]).to(values.dtype),
        noise.reshape(shape[1:]).to(values.dtype),
        h,
        log_likelihood,
        {
            (*name,): sum(each.weight for each in points if each.kernel == name)
            for name in dict.fromkeys(each.kernel for each in points)
        },
    )


def _read_values(values: Any, observed: Any, num_nodes: int) -> tuple[Tensor, Tensor]:
    """Return the values [M] or [M, S] that are there, and their nodes [M]."""
    values = real_numbers("values", values).detach()
    check_dense("values", values)
    values = values if values.is_floating_point() else values.double()
    if observed is None:
        nodes = torch.arange(num_nodes)
    else:
        if not isinstance(observed, Tensor):
            observed = tensor_of("observed", np.asarray(observed))
        if observed.dtype == torch.bool:
            check_mask("observed", observed, (num_nodes,), "nodes")
            nodes = observed.nonzero()[:, 0]
            values = values[nodes] if values.dim() and len(values) == num_nodes else values
        else:
            nodes = read_nodes("observed", observed, num_nodes)
    if values.dim() not in (1, 2) or len(values) != len(nodes) or 0 in values.shape[1:]:
        what = "one row for each node" if observed is None else "one row for each of 'observed'"
        raise ValueError(
            f"Expected 'values' to have shape [{len(nodes)}] or [{len(nodes)}, S], {what} (got "
            f"{list(values.shape)}). To fix this, give values of all nodes, NaN where there is "
            "none, without 'observed', or values [M] and their nodes [M]."
        )
    missing = values.isnan().reshape(len(values), -1)
    is_gap = missing.all(1)
    if bool((missing.any(1) & ~is_gap).any()):
        raise ValueError(
            "Expected 'values' to be NaN in all columns of a node or in none (got "
            f"{int((missing.any(1) & ~is_gap).sum())} rows with some). To fix this, call "
            "interpolate for columns with the same gaps."
        )
    values, nodes = values[~is_gap], nodes[~is_gap]
    check_finite("values", values)
    if len(nodes) < 2 or len(nodes.unique()) < len(nodes):
        raise ValueError(
            f"Expected 'observed' to name two nodes or more, each once (got {len(nodes)} with a "
            f"value, {len(nodes.unique())} of them different). To fix this, take the mean of the "
            "values of a node."
        )
    return values, nodes


def _part_around(
    structure: GraphStructure, observed: Tensor, centre: int, count: int
) -> Tensor | None:
    """Find the nodes around an observed one, of which `count` are observed, in ascending order.

    None if many edges leave them, so that heat does not stay there.
    """
    size = structure.num_nodes
    ends = structure.row.numpy(), structure.col.numpy()
    pattern = csr_array((np.ones(len(ends[0])), ends), shape=(size, size))
    order = breadth_first_order(pattern, int(observed[centre]), return_predecessors=False)
    is_observed = np.zeros(size, dtype=bool)
    is_observed[observed] = True
    reached = is_observed[order].cumsum()
    if reached[-1] < count:
        return None
    part = np.sort(order[: int(reached.searchsorted(count)) + 1])
    inside = np.zeros(size, dtype=bool)
    inside[part] = True
    leaving = pattern[part].sum() - pattern[part][:, part].sum()
    return torch.from_numpy(part).long() if leaving < _LEAVING * len(part) else None


class _Process(Module):
    """A Gaussian process on a graph: kernels, time, noise and conductance."""

    def __init__(self, data: Data, kernels: list[_Kernel], conduct: Module | None) -> None:
        super().__init__()
        self.structure, weight = read_data(data)
        self.edge_weight = weight.double()
        if conduct is not None:
            check_data(data, "edge_attr")
            self.structure.check_attr(data.edge_attr)
            self.edge_attr = data.edge_attr.detach().double()
        self.kernels = kernels
        self.best = _Point(kernels[0], 1.0, 0.1, 1.0)
        self.grid: list[_Point] = []
        self.log_t = Parameter(torch.zeros((), dtype=torch.float64))
        self.log_noise = Parameter(torch.zeros((), dtype=torch.float64))
        self.conduct = conduct
        self.width = max(1, min(_PANEL, _PANEL_SIZE // max(self.structure.num_nodes, 1)))
        total = float(self.conducted().detach().sum()) / max(self.structure.num_nodes, 1)
        self.mean_degree = total if total > 0 else 1.0

    def conducted(self) -> Tensor:
        """Multiply weights by conductances: [E]."""
        if self.conduct is None:
            return self.edge_weight
        h: Tensor = self.conduct(self.edge_attr)
        return self.edge_weight * h

    def times(self, kernel: _Kernel) -> Tensor:
        """List times of a kernel, in which heat spreads little and far."""
        degree = self.mean_degree if kernel.normalization is None else 1.0
        return torch.from_numpy(_TIMES) / degree

    def spread(
        self,
        columns: Tensor,
        nodes: Tensor | None,
        kernel: _Kernel,
        t: Tensor | float,
        power: float = 1.0,
    ) -> Tensor:
        """Filter columns [M, P] that live on some nodes, or on all (None): [N, P]."""
        if nodes is not None:
            x = columns.new_zeros(self.structure.num_nodes, columns.size(1))
            columns = x.index_copy(0, nodes, columns)
        filter = FromFunction(lambda value: kernel(t, value) ** power)
        weight, kind = self.conducted(), kernel.normalization
        out: Tensor = filter(columns, self.structure, weight, normalization=kind, tol=_TOL)
        return out

    def covariance(self, nodes: Tensor, kernel: _Kernel, t: Tensor) -> Tensor:
        """Compute K at some nodes, [M, M], with its gradient."""
        eye = torch.eye(len(nodes), dtype=torch.float64)

        def rows(panel: Tensor) -> Tensor:
            return self.spread(panel, nodes, kernel, t)[nodes]

        # The backward pass computes each panel again, so that one alone takes memory.
        panels = eye.split(self.width, 1)
        found = torch.cat([checkpoint(rows, p, use_reentrant=False) for p in panels], -1)
        return (found + found.mT) / 2

    @torch.no_grad()
    def entries(
        self, kernels: list[tuple[_Kernel, float]], columns: Tensor, rows: Tensor | None
    ) -> Tensor:
        """Compute K of several kernels of one Laplacian at rows and columns: [F, R, M].

        Without rows, the diagonal [F, M]. The products are shared, and multiples of few rows added.
        """
        normalization = kernels[0][0].normalization
        laplacian = laplacian_entries(self.structure, self.conducted(), normalization)
        step, rate = scipy_matrix(self.structure, laplacian), laplacian[2]["rate"]

        def response(value: Tensor) -> Tensor:
            return torch.stack([kernel(t, value) for kernel, t in kernels])

        coefficient = cosine_coefficients(response, rate, None, _TOL).T.contiguous()
        found = []
        for panel in columns.split(min(_NARROW, self.width)):
            place = (panel if rows is None else rows).numpy()
            own = np.arange(len(panel)) if rows is None else slice(None)
            before, term = None, np.zeros((self.structure.num_nodes, len(panel)))
            term[panel.numpy(), np.arange(len(panel))] = 1
            kept = np.empty((coefficient.size(1), *term[place, own].shape))
            for k in range(len(kept)):
                kept[k] = term[place, own]
                after = step @ term
                if before is not None:
                    after *= 2
                    after -= before
                before, term = term, after
            terms = torch.from_numpy(kept)
            found.append((coefficient @ terms.flatten(1)).unflatten(1, terms.shape[1:]))
        return torch.cat(found, -1)

    def log_likelihood(self, y: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return the likelihood of values [M, S], as `_log_likelihoods` does."""
        covariance = self.covariance(nodes, self.best.kernel, self.log_t.exp())
        factor, _, _, squares, one = _solve(covariance, y, self.log_noise.exp())
        log_det = 2 * factor.diagonal().log().sum()
        return _log_likelihoods(log_det, one.sum(), squares, len(y))

    @torch.no_grad()
    def likelihoods(self, y: Tensor, nodes: Tensor) -> Tensor:
        """Compute both on the grid [2, C, T, R]; one eigendecomposition serves all ratios."""
        found, ratios = [], _LOG_NOISES.exp()
        for _, kernels in itertools.groupby(self.kernels, lambda each: each.normalization):
            pairs = [(kernel, float(t)) for kernel in kernels for t in self.times(kernel)]
            for covariance in self.entries(pairs, nodes, nodes):
                value, mode = torch.linalg.eigh(covariance / covariance.diagonal().mean())
                # [M, R] the eigenvalues of A; [M, 1] ones, [M, S] the signals in its eigenvectors
                both = value.clamp(min=0)[:, None] + ratios
                one, own = mode.sum(0)[:, None], mode.T @ (y - y.mean(0))
                ones = (one.square() / both).sum(0)
                mean = ((one / both).T @ own) / ones[:, None]
                squares = (1 / both).T @ own.square() - mean.square() * ones[:, None]
                likely = _log_likelihoods(both.log().sum(0), ones, squares.T, len(y))
                found.append(torch.stack(likely))
        return torch.stack(found, 1).reshape(2, len(self.kernels), len(_TIMES), len(ratios))

    def starts(self, found: Tensor, t: float | None) -> list[_Point]:
        """List the best peaks of the likelihood on its grid [C, T, R], of its best kernel."""
        kernel, found = max(zip(self.kernels, found, strict=True), key=lambda each: each[1].max())
        times = self.times(kernel)
        if t is not None:
            nearest = int((times.log() - math.log(t)).abs().argmin())
            times, found = torch.tensor([t], dtype=torch.float64), found[nearest : nearest + 1]
        peaks = found == max_pool2d(found[None], 3, stride=1, padding=1)[0]
        peaks &= found > found.max() - _LOWER
        place = peaks.nonzero()[found[peaks].argsort(descending=True)][:_PEAKS].tolist()
        usual = torch.searchsorted(_LOG_NOISES, torch.tensor(_USUAL).double()).tolist()
        if self.conduct is not None:  # with other conductances another place may be the best
            place += [[int(found[:, j].argmax()), j] for j in usual]
        return [_Point(kernel, float(times[i]), math.exp(_LOG_NOISES[j]), 1.0) for i, j in place]

    def fit(self, y: Tensor, nodes: Tensor, t: float | None) -> float:
        """Find the most likely point and the weights of a grid; return the largest likelihood."""
        theta = parameters_to_vector(self.parameters()).detach()[2:]
        largest, integral = self.likelihoods(y, nodes)
        found = []
        for start in self.starts(largest, t):
            self.best = start  # all have one kernel
            first = torch.tensor([start.t, start.r], dtype=torch.float64).log()
            found.append(self._climb(y, nodes, torch.cat([first, theta])))
        best = min(found, key=lambda each: float(each.fun))
        vector_to_parameters(torch.from_numpy(best.x), self.parameters())
        if self.conduct is not None:
            integral = self.likelihoods(y, nodes)[1]
        with torch.no_grad():
            log_likelihood, here = self.log_likelihood(y, nodes)
        highest = torch.maximum(integral.max(), here)
        weight = (integral - highest).exp()
        t, r = self.log_t.exp().item(), self.log_noise.exp().item()
        self.best = _Point(self.best.kernel, t, r, float((here - highest).exp()))
        self.grid = [
            _Point(each, float(t), math.exp(_LOG_NOISES[j]), float(weight[c, i, j]))
            for c, each in enumerate(self.kernels)
            for i, t in enumerate(self.times(each))
            for j in range(len(_LOG_NOISES))
        ]
        return float(log_likelihood)

    def points(self, count: int) -> list[_Point]:
        """List points at even quantiles of the weights, which they share; of one, the best."""
        points = [self.best, *self.grid]
        total = np.cumsum([each.weight for each in points])
        place = total.searchsorted((np.arange(count) + 0.5) / count * total[-1])
        found = np.bincount(place if count > 1 else [0])
        return [points[i]._replace(weight=float(found[i] / count)) for i in found.nonzero()[0]]

    def _climb(self, y: Tensor, nodes: Tensor, first: Tensor) -> Any:
        """Maximise the likelihood times the prior by L-BFGS, from the parameters `first`."""
        from scipy.optimize import minimize

        def loss(vector: np.ndarray) -> tuple[float, np.ndarray]:
            vector_to_parameters(torch.from_numpy(vector), self.parameters())
            now = parameters_to_vector(self.parameters())
            moved = (now - first)[2:] / _PRIOR  # of the conductance
            value = (moved.square().sum() / 2 - self.log_likelihood(y, nodes)[0]) / y.numel()
            grads = torch.autograd.grad(value, list(self.parameters()))
            return float(value.detach()), parameters_to_vector(grads).numpy()

        longest = float(self.times(self.best.kernel)[-1].log())
        bounds = [(longest - 16, longest), (math.log(_LEAST_NOISE), math.log(1e3))]
        bounds += [(-math.inf, math.inf)] * (len(first) - 2)
        options = {"jac": True, "method": "L-BFGS-B", "options": {"maxiter": 100}}
        return minimize(loss, first.numpy(), bounds=bounds, **options)

    def condition(
        self, y: Tensor, nodes: Tensor, points: list[_Point], generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Given observations, compute means and deviations [N, S], and the best amplitudes [S]."""
        every = torch.arange(self.structure.num_nodes)
        is_small, size = len(every) <= _LARGEST_DENSE, len(y)
        columns: dict[tuple[_Kernel, float], Tensor] = {}  # of K, at nodes
        priors = columns.copy()  # its diagonal
        kernels = dict.fromkeys((each.kernel, each.t) for each in (self.best, *points))
        for kind in dict.fromkeys(kernel.normalization for kernel, _ in kernels):
            some = [each for each in kernels if each[0].normalization == kind]
            rows = every if is_small else nodes
            columns |= zip(some, self.entries(some, nodes, rows), strict=True)
            if is_small:
                priors |= zip(some, self.entries(some, every, None), strict=True)
        first = second = torch.zeros((), dtype=torch.float64)
        for point in points:
            kernel, t, r, weight = point
            near = columns[kernel, t]
            factor, kappa, mean, squares, one = _solve(near[nodes] if is_small else near, y, r)
            alpha = torch.cat([torch.cholesky_solve(y - mean, factor), one], 1) / kappa
            if is_small:
                white = torch.linalg.solve_triangular(factor, near.T / kappa, upper=False)
                left, out = priors[kernel, t] / kappa - white.square().sum(0), near @ alpha
            else:
                left = self._sampled_variance(factor, kappa, nodes, point, generator)
                out = self.spread(alpha, nodes, kernel, t)
            found = mean + out[:, :-1]
            # What is not explained, of the signal and of a mean that is known by the values only.
            left = left.clamp(min=0)[:, None] + (1 - out[:, -1:]).square() / one.sum()
            first = first + weight * found
            second = second + weight * (found.square() + left * squares / (size - 1))
        near = columns[self.best.kernel, self.best.t]
        squares = _solve(near[nodes] if is_small else near, y, self.best.r)[3]
        deviation = (second - first.square()).clamp(min=0).sqrt()
        return first, deviation, (squares / (size - 1)).sqrt()

    def _sampled_variance(
        self,
        factor: Tensor,
        kappa: Tensor,
        nodes: Tensor,
        point: _Point,
        generator: torch.Generator,
    ) -> Tensor:
        """Estimate what is left by draws of the process, less what is interpolated from them."""
        total = torch.zeros(self.structure.num_nodes, dtype=torch.float64)
        samples = round(_SAMPLES * point.weight)
        for panel in torch.arange(samples).split(self.width):
            count = len(panel)
            white = torch.randn(len(total), count, dtype=torch.float64, generator=generator)
            drawn = self.spread(white, None, point.kernel, point.t, 0.5) / kappa.sqrt()
            noise = torch.randn(len(nodes), count, dtype=torch.float64, generator=generator)
            solved = torch.cholesky_solve(drawn[nodes] + math.sqrt(point.r) * noise, factor)
            explained = self.spread(solved, nodes, point.kernel, point.t) / kappa
            total += (drawn - explained).square().sum(1)
        return total / samples


def _solve(
    covariance: Tensor, y: Tensor, r: Tensor | float
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the factor of A, kappa, the means and sums of squares [S], and A^-1 1 [M, 1]."""
    kappa = covariance.diagonal().mean()
    eye = torch.eye(len(y), dtype=torch.float64)
    factor = torch.linalg.cholesky(covariance / kappa + r * eye)
    one = torch.cholesky_solve(torch.ones_like(y[:, :1]), factor)
    mean = (one * y).sum(0) / one.sum()
    white = torch.linalg.solve_triangular(factor, y - mean, upper=False)
    return factor, kappa, mean, white.square().sum(0), one


def _log_likelihoods(
    log_det: Tensor, ones: Tensor, squares: Tensor, count: int
) -> tuple[Tensor, Tensor]:
    """Compute likelihoods of S signals: the largest, and up to a constant that without mu and a.

    By log det A, the sum of its inverse and the sums of squares [S, ...].
    """
    log_variance = (squares / count).clamp(min=1e-300).log()
    largest = -0.5 * (log_det + count * (math.log(2 * math.pi) + 1 + log_variance)).sum(0)
    return largest, largest + 0.5 * (log_variance - ones.log()).sum(0)
