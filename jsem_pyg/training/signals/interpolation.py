"""Values at a few nodes -> a mean and a deviation at every node, by a Gaussian process.

Its formulas are in docs/mathematics.md, "Interpolation".
"""

import copy
import math
import warnings
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order
from torch import Generator, Tensor
from torch.nn import Module
from torch_geometric.data import Data

from ..._checks import (
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
from .condition import condition, likely_points
from .kernel import Field, Kernel, read_field
from .likelihood import Point, find_likely

_EXPONENTS = (1.0, 1.5, 2.5, 3.5)  # nu: 1 is that of rough signals on paths, 3.5 nearly heat
POINTS = 16  # points of the grid that are averaged
_LEAVING = 0.1  # edges that leave a part of a graph, over its nodes, if it stands for the graph
_HARDLY = 0.1  # of the mean: edges that conduct less are closed where that is as likely
_ROUNDING = 1e-12  # of values that are equal, relative


class Interpolation(NamedTuple):
    """A signal at every node, and the kernels that it was interpolated by."""

    mean: Tensor  #: [N] or [N, S]
    deviation: Tensor  #: [N] or [N, S] standard deviation of the signal, without noise
    t: float  #: time of the most likely kernel
    amplitude: Tensor  #: [] or [S] standard deviation of the signal, by the most likely kernel
    noise: Tensor  #: [] or [S] standard deviation of the noise of observations, averaged too
    conductance: Tensor | None  #: [E] in order of `edge_index`, 0 if closed; or None
    log_likelihood: float  #: of the most likely kernel, noise and conductance
    shares: dict[tuple[str | float, str | None], float]  #: of each (kernel, normalization) in it


@torch.inference_mode(False)
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
            each with an amplitude and a noise of its own. Rows of NaN are gaps.
            Tensors, arrays and lists are taken.
        observed: [M] the nodes where they were observed, each once, or a mask [N] of them beside
            their values [M] or those of all nodes [N]. None: values are [N], with NaN at the gaps.
        kernel: "heat", :math:`e^{-t \lambda}`, for very smooth signals; an exponent :math:`\nu`
            (or "matern", 1.5) for :math:`(1 + t \lambda)^{-\nu}`, the larger, the smoother;
            "auto", the exponents 1, 1.5, 2.5 and 3.5, averaged by their weight.
        conductance: A module `(edge_attr)` -> [E] in (0, 1], such as
            :class:`~jsem_pyg.nn.SigmoidConductance`, trained in place by the most likely kernel.
            Edges that hardly conduct close (0) if that is as likely. None: weights as given.
        t: The time to start from, > 0. None: the likelihood is maximised from its best
            places among 31 times, each with its most likely noise.
        normalization: "sym", or None for the Laplacian D - W, which often suits grids and meshes,
            "sym" graphs whose degrees differ much; "auto", both, averaged by their weight.
        max_fitted: Of more observed nodes, only this number is used to fit time, noise and
            conductance: neighbours in a part of the graph if few edges leave that part, as on road
            networks and meshes, else random ones. Mean and deviation follow from all.
        seed: Of what is drawn. On graphs of more than 2,000 nodes deviations are estimated from 256
            draws of the process, with a standard error of four per cent.

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
    kernels = [Kernel(form, each) for each in laplacians for form in forms]
    check_positive_int("max_fitted", max_fitted)
    check_nonnegative_int("seed", seed)
    if t is not None:
        check_positive("t", t)
    if conductance is not None:
        check_instance("conductance", conductance, Module, "a module or None")
    # Trained in float64, and given back in its own type.
    trained = None if conductance is None else copy.deepcopy(conductance).double()
    field = read_field(data, trained)
    values, observed = _read_values(values, observed, field.structure.num_nodes)
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
    generator, known = Generator(), (y[:, varies], observed, max_fitted)
    best, grid, log_likelihood = Point(kernels[0], 1.0, 0.1, 1.0), list[Point](), math.nan
    if bool(varies.any()):
        fitted, own, place = _fitted(data, field, *known, generator.manual_seed(seed))
        best, grid, log_likelihood = find_likely(fitted, kernels, own, place, t)
    with torch.no_grad():
        h = field.conducts()
    if h is not None and bool(varies.any()):
        least = _HARDLY * float(h.mean())
        is_open, rival = h >= least, fitted.frozen(least)
        is_told = not rival.edge_weight.equal(fitted.frozen().edge_weight)  # in the fitted part
        if is_told and find_likely(rival, kernels, own, place, t)[2] >= log_likelihood:
            h, data = h * is_open, data.edge_subgraph(is_open)
            data.num_nodes = field.structure.num_nodes
            data.edge_weight = (field.edge_weight * h)[is_open]
            field = read_field(data, None)
            fitted, own, place = _fitted(data, field, *known, generator.manual_seed(seed))
            best, grid, log_likelihood = find_likely(fitted, kernels, own, place, t)
    points = likely_points(best, grid, max(1, POINTS * min(len(y), max_fitted) // len(y)))
    mean, deviation, noise, amplitude = condition(field, y, observed, best, points, generator)
    if conductance is not None and trained is not None:
        conductance.load_state_dict(trained.state_dict())
    shape, dtype = (-1, *values.shape[1:]), values.dtype
    return Interpolation(
        (mean + shift).reshape(shape).to(dtype),
        deviation.reshape(shape).to(dtype),
        best.t,
        amplitude.reshape(shape[1:]).to(dtype),
        noise.reshape(shape[1:]).to(dtype),
        None if h is None else h.to(dtype),
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
            observed = observed if observed.numel() else observed.long()  # [] is of no type
            nodes = read_nodes("observed", observed, num_nodes)
    if values.dim() not in (1, 2) or len(values) != len(nodes) or 0 in values.shape[1:]:
        what = "one row for each node" if observed is None else "one row for each of 'observed'"
        raise ValueError(
            f"Expected 'values' to have shape [{len(nodes)}] or [{len(nodes)}, S], {what} (got "
            f"{list(values.shape)}). To fix this, give values of all nodes, NaN where there is "
            "none, without 'observed', or values [M] and their nodes [M]."
        )
    missing = values[:, None].isnan().flatten(1)
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
            f"value, {len(nodes.unique())} of them different). To fix this, give values of more "
            "nodes, and the mean of several at one node."
        )
    return values, nodes


def _fitted(
    data: Data, field: Field, y: Tensor, observed: Tensor, count: int, draws: Generator
) -> tuple[Field, Tensor, Tensor]:
    """Choose what kernels are fitted to: a field, `count` of the values, and their nodes in it.

    They are those around an observed node, unless many edges leave, so that heat does not stay.
    """
    some = torch.randperm(len(y), generator=draws)[:count]
    size, ends = field.structure.num_nodes, (field.structure.row, field.structure.col)
    pattern = csr_array((np.ones(len(ends[0])), [each.numpy() for each in ends]), (size, size))
    order = breadth_first_order(pattern, int(observed[some[0]]), return_predecessors=False)
    reached = np.isin(order, observed).cumsum()
    nodes = np.sort(order[: int(reached.searchsorted(count)) + 1])
    leaving = pattern[nodes].sum() - pattern[nodes][:, nodes].sum()
    if len(some) == len(y) or reached[-1] < count or leaving >= _LEAVING * len(nodes):
        return field, y[some], observed[some]
    part = torch.from_numpy(nodes).long()
    place = torch.searchsorted(part, observed).clamp(max=len(part) - 1)
    is_there = part[place] == observed
    return read_field(data.subgraph(part), field.conductance), y[is_there], place[is_there]
