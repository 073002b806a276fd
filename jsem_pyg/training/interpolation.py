r"""Values at a few nodes -> a mean and a deviation at every node, by a Gaussian process.

Before anything is observed, a signal is normal with a constant mean :math:`\mu` and the covariance

.. math::
    a^2 \, \mathbf{K} / \kappa, \qquad \mathbf{K} = f(\mathbf{L}_{\theta}), \qquad
    f(\lambda) = e^{-t \lambda} \quad \mathrm{or} \quad (1 + t \lambda)^{-\nu}

with :math:`\kappa` the mean of the diagonal of K at the observed nodes. Observations have noise of
the variance :math:`r a^2`. With :math:`\mathbf{A} = \mathbf{K}_{oo} / \kappa + r \mathbf{I}`, the
mean and the amplitude a that maximise the likelihood have formulas, for each column. The time t,
the ratio r and the parameters :math:`\theta` of a conductance are those of all columns; they start
at the best places of a grid of times and ratios, and follow the gradient. Parameters have a wide
normal prior around their start, since edges that all signals agree on would else open or close
without end.
"""

import copy
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
from ..diffusion.filters import Filter, FilterBank, FromFunction, Heat
from ..graph import GraphStructure
from ..graph.read_data import check_data, read_data

_SMOOTHNESS = 1.5  # nu of the Matern kernel
_TIMES = np.geomspace(0.03, 1e3, 31)  # over the mean degree: times to start from
_LOG_NOISES = torch.linspace(-13.5, 6, 40, dtype=torch.float64)  # of r, likewise
_PEAKS, _LOWER = 3, 3.0  # so many peaks of the grid are climbed, if no lower than the highest by
_USUAL = (-3.0, -1.0)  # log r, to start from as well where edges are learned
_LARGEST_DENSE = 4_000  # nodes of a graph with exact variances; on larger graphs they are sampled
_PANEL, _PANEL_SIZE = 256, 2**25  # columns that are diffused at once, and numbers in them
_SAMPLES = 256  # draws of the process on large graphs
_LEAVING = 0.1  # edges that leave a part of a graph, over its nodes, if it stands for the graph
_LEAST_NOISE = 1e-6  # r, so that A has a Cholesky factor
_TOL = 1e-9  # of the kernel, below what r adds to it
_ROUNDING = 1e-12  # of values that are equal, relative
_PRIOR = 3.0  # standard deviation of a conductance's parameters around their start


class Interpolation(NamedTuple):
    """A signal at every node, and the kernel that it was interpolated by."""

    mean: Tensor  #: [N] or [N, S]
    deviation: Tensor  #: [N] or [N, S] standard deviation of the signal, without noise
    t: float  #: time of the kernel
    amplitude: Tensor  #: [] or [S] standard deviation of the signal before anything is observed
    noise: Tensor  #: [] or [S] standard deviation of the noise of observations
    conductance: Tensor | None  #: [E] in the order of `edge_index`; None if it is not learned
    log_likelihood: float  #: of the values that kernel and noise were fitted to


def interpolate(
    data: Data,
    values: Any,
    observed: Any = None,
    *,
    kernel: str = "heat",
    conductance: Module | None = None,
    t: float | None = None,
    normalization: str | None = "sym",
    max_fitted: int = 500,
    seed: int = 0,
) -> Interpolation:
    r"""Interpolate a signal from a few nodes to all, with its uncertainty (kriging on a graph).

    A Gaussian process whose kernel is the heat kernel of the graph. Time, noise and, with a
    `conductance`, how well each edge conducts, maximise the likelihood of the observed values. They
    need no nodes for validation.

    Args:
        data: A graph with `edge_index` [2, E], both directions, optionally `edge_weight` [E], and
            `edge_attr` [E, F] for a conductance. It is not changed.
        values: [M], or [M, S] for S signals with the same kernel, such as snapshots of a network,
            each with an amplitude and a noise of its own in one ratio. Rows of NaN are gaps.
            Tensors, arrays and lists are taken.
        observed: [M] the nodes where they were observed, each once, or a mask [N] of them beside
            their values [M] or those of all nodes [N]. None: values are [N], with NaN at the gaps.
        kernel: "heat", :math:`e^{-t \lambda}`, or "matern", :math:`(1 + t \lambda)^{-3/2}`, whose
            signals are rougher.
        conductance: A module `(edge_attr)` -> [E] in (0, 1], such as
            :class:`~jsem_pyg.nn.SigmoidConductance`, trained in place. None: weights as given.
        t: The time to start from, > 0. None: the likelihood chooses from 31 times, in
            both cases with 40 noises, and is climbed from its highest peaks there.
        normalization: "sym", or None for the Laplacian D - W. The one with the larger
            `log_likelihood` suits the signal: often None on grids and meshes, "sym" where degrees
            differ much.
        max_fitted: Of more observed nodes, only this number is used to fit time, noise and
            conductance: neighbours in a part of the graph if few edges leave that part, as on road
            networks and meshes, else random ones. Mean and deviation follow from all.
        seed: Of what is drawn. On graphs of more than 4,000 nodes deviations are estimated from 256
            draws of the process, within four per cent.

    Returns:
        A record with `mean` and `deviation` [N] or [N, S], `t`, `amplitude` and `noise` [] or [S],
        `conductance` [E] and `log_likelihood`.

    Sources: Rasmussen and Williams, "Gaussian processes for machine learning", 2006, equation 5.8;
    Borovitskiy et al., "Matern Gaussian processes on graphs", 2021; Wilson et al., "Efficiently
    sampling functions from Gaussian process posteriors", 2020, for deviations from draws.

    Example:
        >>> path = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 4]])
        >>> graph = Data(edge_index=torch.cat([path, path.flip(0)], 1), num_nodes=5)
        >>> values, observed = torch.tensor([0.0, 1.0, 4.0]), torch.tensor([0, 1, 4])
        >>> found = interpolate(graph, values, observed, normalization=None)
        >>> bool(1 < found.mean[2] < found.mean[3] < 4)
        True
        >>> int(found.deviation[:3].argmax())  # farther from what was observed
        2
    """
    check_choice("kernel", kernel, ("heat", "matern"))
    check_choice("normalization", normalization, (None, "sym"))
    check_positive_int("max_fitted", max_fitted)
    check_nonnegative_int("seed", seed)
    if t is not None:
        check_positive("t", t)
    if conductance is not None:
        check_instance("conductance", conductance, Module, "a module or None")
    # Trained in float64, and given back in its own type.
    trained = None if conductance is None else copy.deepcopy(conductance).double()
    process = _Process(data, kernel, trained, normalization)
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
    varying = y[:, varies]
    generator = torch.Generator().manual_seed(seed)
    some = torch.randperm(len(y), generator=generator)[:max_fitted]
    times = None if t is None else torch.tensor([t], dtype=torch.float64)
    part = None
    if len(some) < len(y):
        part = _part_around(process.structure, observed, int(some[0]), max_fitted)
    log_likelihood = math.nan
    if not bool(varies.any()):
        pass
    elif part is None:
        log_likelihood = process.fit(varying[some], observed[some], times)
    else:
        fitted = _Process(data.subgraph(part), kernel, trained, normalization)
        place = torch.searchsorted(part, observed).clamp(max=len(part) - 1)
        some = part[place] == observed
        log_likelihood = fitted.fit(varying[some], place[some], times)
        process.load_state_dict(fitted.state_dict())
    with torch.no_grad():
        mean, deviation, amplitude = process.condition(y, observed, generator)
        mean += shift
        noise = amplitude * process.noise().sqrt()
        h = None if trained is None else trained(process.edge_attr).to(values.dtype)
    if conductance is not None and trained is not None:
        conductance.load_state_dict(trained.state_dict())
    shape = -1, *values.shape[1:]
    return Interpolation(
        mean.reshape(shape).to(values.dtype),
        deviation.reshape(shape).to(values.dtype),
        float(process.log_t.detach().exp()),
        amplitude.reshape(shape[1:]).to(values.dtype),
        noise.reshape(shape[1:]).to(values.dtype),
        h,
        log_likelihood,
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
    """A Gaussian process on a graph: kernel, time, noise and conductance."""

    def __init__(
        self, data: Data, kernel: str, conduct: Module | None, normalization: str | None
    ) -> None:
        super().__init__()
        self.structure, weight = read_data(data)
        self.edge_weight = weight.double()
        if conduct is not None:
            check_data(data, "edge_attr")
            self.structure.check_attr(data.edge_attr)
            self.edge_attr = data.edge_attr.detach().double()
        self.kernel, self.normalization = kernel, normalization
        self.log_t = Parameter(torch.zeros((), dtype=torch.float64))
        self.log_noise = Parameter(torch.full((), -2.0, dtype=torch.float64))
        self.conduct = conduct
        self.width = max(1, min(_PANEL, _PANEL_SIZE // max(self.structure.num_nodes, 1)))
        total = float(self.conducted().detach().sum()) / max(self.structure.num_nodes, 1)
        self.mean_degree = total if normalization is None and total > 0 else 1.0

    def conducted(self) -> Tensor:
        """Multiply weights by conductances: [E]."""
        if self.conduct is None:
            return self.edge_weight
        h: Tensor = self.conduct(self.edge_attr)
        return self.edge_weight * h

    def noise(self) -> Tensor:
        """Return r, the variance of the noise over that of the signal."""
        return self.log_noise.exp() + _LEAST_NOISE

    def filter(self, t: Tensor, power: float = 1.0) -> Filter:
        """Make a power of the kernel K of a time."""
        if self.kernel == "heat":
            return Heat(power * t)
        return FromFunction(lambda value: (1 + t * value) ** (-_SMOOTHNESS * power))

    def spread(self, columns: Tensor, nodes: Tensor | None, filter: Filter) -> Tensor:
        """Filter columns [M, P] that live on some nodes, or on all (None): [..., N, P]."""
        if nodes is not None:
            x = columns.new_zeros(self.structure.num_nodes, columns.size(1))
            columns = x.index_copy(0, nodes, columns)
        weight, kind = self.conducted(), self.normalization
        out: Tensor = filter(columns, self.structure, weight, normalization=kind, tol=_TOL)
        return out

    def covariance(self, nodes: Tensor, filter: Filter) -> Tensor:
        """Compute K at some nodes, [..., M, M]."""
        eye = torch.eye(len(nodes), dtype=torch.float64)

        def rows(panel: Tensor) -> Tensor:
            return self.spread(panel, nodes, filter)[..., nodes, :]

        # The backward pass computes each panel again, so that one alone takes memory.
        panels = eye.split(max(1, self.width // (filter.num_filters or 1)), 1)
        found = torch.cat([checkpoint(rows, p, use_reentrant=False) for p in panels], -1)
        return (found + found.mT) / 2

    def solve(self, y: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Factor A; return its Cholesky factor, kappa, the means and the amplitudes squared [S]."""
        covariance = self.covariance(nodes, self.filter(self.log_t.exp()))
        kappa = covariance.diagonal().mean()
        factor = torch.linalg.cholesky(
            covariance / kappa + self.noise() * torch.eye(len(nodes), dtype=torch.float64)
        )
        one = torch.cholesky_solve(torch.ones_like(y[:, :1]), factor)
        mean = (one * y).sum(0) / one.sum()
        white = torch.linalg.solve_triangular(factor, y - mean, upper=False)
        return factor, kappa, mean, white.square().mean(0)

    def log_likelihood(self, y: Tensor, nodes: Tensor) -> Tensor:
        """Return the largest likelihood of values [M, S] for any mean and amplitude."""
        factor, _, _, variance = self.solve(y, nodes)
        log_det = 2 * factor.diagonal().log().sum()
        return _log_likelihood(log_det, variance, len(y))

    @torch.no_grad()
    def starts(self, y: Tensor, nodes: Tensor, times: Tensor) -> list[tuple[float, float]]:
        """List the best peaks, log t and log r, of the likelihood on a grid [T, R].

        One eigendecomposition of K serves the noises of a time; products serve all times.
        """
        filters = FilterBank(*map(self.filter, times))
        table = []
        for covariance in self.covariance(nodes, filters):
            value, mode = torch.linalg.eigh(covariance / covariance.diagonal().mean())
            # [M, R] the eigenvalues of A; [M, 1] ones and [M, S] the signals in its eigenvectors
            both = value.clamp(min=0)[:, None] + _LOG_NOISES.exp() + _LEAST_NOISE
            one, own = mode.sum(0)[:, None], mode.T @ (y - y.mean(0))
            mean = ((one / both).T @ own) / (one.square() / both).sum(0)[:, None]
            squares = (1 / both).T @ own.square()
            variance = squares - mean.square() * (one.square() / both).sum(0)[:, None]
            table.append(_log_likelihood(both.log().sum(0), variance.T / len(y), len(y)))
        found = torch.stack(table)
        peaks = found == max_pool2d(found[None], 3, stride=1, padding=1)[0]
        peaks &= found > found.max() - _LOWER
        place = peaks.nonzero()[found[peaks].argsort(descending=True)][:_PEAKS].tolist()
        usual = torch.searchsorted(_LOG_NOISES, torch.tensor(_USUAL).double()).tolist()
        if self.conduct is not None:  # with other conductances another place may be the best
            place += [[int(found[:, j].argmax()), j] for j in usual]
        return [(math.log(times[i]), float(_LOG_NOISES[j])) for i, j in place]

    def fit(self, y: Tensor, nodes: Tensor, times: Tensor | None) -> float:
        """Maximise the likelihood from the best of some times and noises, and return it."""
        if times is None:
            times = torch.from_numpy(_TIMES) / self.mean_degree
        theta = parameters_to_vector(self.parameters()).detach()[2:]
        found = []
        for start in self.starts(y, nodes, times):
            first = torch.cat([torch.tensor(start, dtype=torch.float64), theta])
            found.append(self._climb(y, nodes, first))
        best = min(found, key=lambda each: float(each.fun))
        vector_to_parameters(torch.from_numpy(best.x), self.parameters())
        return float(self.log_likelihood(y, nodes).detach())

    def _climb(self, y: Tensor, nodes: Tensor, first: Tensor) -> Any:
        """Maximise the likelihood times the prior by L-BFGS, from the parameters `first`."""
        from scipy.optimize import minimize

        def loss(vector: np.ndarray) -> tuple[float, np.ndarray]:
            vector_to_parameters(torch.from_numpy(vector), self.parameters())
            now = parameters_to_vector(self.parameters())
            moved = (now - first)[2:] / _PRIOR  # of the conductance
            value = (moved.square().sum() / 2 - self.log_likelihood(y, nodes)) / y.numel()
            grads = torch.autograd.grad(value, list(self.parameters()))
            return float(value.detach()), parameters_to_vector(grads).numpy()

        longest = math.log(1e3 / self.mean_degree)
        bounds = [(longest - 16, longest), (math.log(_LEAST_NOISE), math.log(1e3))]
        bounds += [(-math.inf, math.inf)] * (len(first) - 2)
        return minimize(
            loss,
            first.numpy(),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": 100},
        )

    def condition(
        self, y: Tensor, nodes: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Given observations, compute means and deviations [N, S], and the amplitudes [S]."""
        factor, kappa, mean, variance = self.solve(y, nodes)
        kernel = self.filter(self.log_t.exp())
        weights = torch.cholesky_solve(y - mean, factor) / kappa
        if self.structure.num_nodes <= _LARGEST_DENSE:
            left = self._exact_variance(factor, kappa, nodes)
        else:
            left = self._sampled_variance(factor, kappa, nodes, generator)
        amplitude = variance.sqrt()
        deviation = left.clamp(min=0).sqrt()[:, None] * amplitude
        return mean + self.spread(weights, nodes, kernel), deviation, amplitude

    def _exact_variance(self, factor: Tensor, kappa: Tensor, nodes: Tensor) -> Tensor:
        """Return the diagonal of K / kappa, less what observations explain: [N]."""
        kernel = self.filter(self.log_t.exp())
        panels = torch.arange(self.structure.num_nodes).split(self.width)
        columns = [self.spread(torch.eye(len(p), dtype=torch.float64), p, kernel) for p in panels]
        prior = torch.cat([c[p].diagonal() for c, p in zip(columns, panels, strict=True)])
        eye = torch.eye(len(nodes), dtype=torch.float64)
        white = torch.linalg.solve_triangular(factor.T, eye, upper=True).split(self.width, 1)
        explained = [self.spread(p, nodes, kernel).square().sum(1) for p in white]
        return prior / kappa - torch.stack(explained).sum(0) / kappa**2

    def _sampled_variance(
        self,
        factor: Tensor,
        kappa: Tensor,
        nodes: Tensor,
        generator: torch.Generator,
    ) -> Tensor:
        """Estimate the same by draws of the process, less what is interpolated from them."""
        t = self.log_t.exp()
        kernel, root = self.filter(t), self.filter(t, 0.5)
        total = torch.zeros(self.structure.num_nodes, dtype=torch.float64)
        for panel in torch.arange(_SAMPLES).split(self.width):
            count = len(panel)
            white = torch.randn(len(total), count, dtype=torch.float64, generator=generator)
            drawn = self.spread(white, None, root) / kappa.sqrt()
            noise = torch.randn(len(nodes), count, dtype=torch.float64, generator=generator)
            seen = drawn[nodes] + self.noise().sqrt() * noise
            explained = self.spread(torch.cholesky_solve(seen, factor), nodes, kernel) / kappa
            total += (drawn - explained).square().sum(1)
        return total / _SAMPLES


def _log_likelihood(log_det: Tensor, variance: Tensor, count: int) -> Tensor:
    """Return the likelihood of S signals at M nodes, by log det A and the variances [S, ...]."""
    rest = count * (math.log(2 * math.pi) + 1 + variance.clamp(min=1e-300).log())
    return -0.5 * (log_det + rest).sum(0)
