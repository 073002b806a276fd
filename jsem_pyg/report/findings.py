"""Read what a report shows from any kind of result."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data

from .._checks import (
    as_argument,
    check_choice,
    check_conductance,
    check_labels,
    check_nonnegative,
    check_points,
)
from ..estimators import DiffusionClusterer
from ..graph import GraphStructure
from ..nn import DiffusionClassifier
from ..operators.laplacian import NORMALIZATIONS
from ..training import FitResult
from ..training.training_graph import TrainingGraph, prepare_graph


@dataclass(frozen=True)
class Findings:
    """Holds what any model found on a graph: clusters, and how well each edge conducts.

    Args:
        labels: [N] the cluster of each point, integers.
        conductances: [E] how well each edge conducts, in [0, 1], the same in both directions.
        t: the chosen diffusion time, >= 0.
        normalization: of the Laplacian, see :func:`~jsem_pyg.diffusion.heat_diffusion`.
        levels: other clusterings [N], which a slider of the map shows.
        distinctness: of the clusters, see :class:`~jsem_pyg.estimators.DiffusionClusterer`.

    Example:
        >>> Findings(torch.tensor([0, 0, 1]), torch.tensor([1.0, 1.0, 0.2, 0.2]), t=2.0).t
        2.0
    """

    labels: Tensor
    conductances: Tensor
    t: float
    normalization: str | None = "sym"
    levels: tuple[Tensor, ...] = ()
    distinctness: float | None = None


def read_findings(data: Any, result: Any) -> tuple[TrainingGraph, Findings]:
    """Return the graph, and what was found on it; all on the CPU."""
    if isinstance(result, DiffusionClusterer):
        data = _fitted_graph(data, result)
    graph = prepare_graph(data, "cpu")
    check_points("data.x", graph.x)
    if graph.y is not None:
        check_labels("data.y", graph.y, len(graph.x))
    found = _read(graph, result)
    with as_argument("data", "edge_index"):
        _check(found, graph, graph.structure)
    return graph, found


def _read(graph: TrainingGraph, result: Any) -> Findings:
    if isinstance(result, Findings):
        return replace(
            result,
            labels=_on_cpu(result.labels),
            conductances=_on_cpu(result.conductances),
            levels=tuple(map(_on_cpu, result.levels)),
        )
    if isinstance(result, DiffusionClusterer):
        labels, conductances = map(torch.from_numpy, (result.labels_, result.conductances_))
        levels = tuple(torch.from_numpy(level.labels) for level in result.tree_.levels[1:])
        return Findings(
            labels, conductances, result.t_, levels=levels, distinctness=result.distinctness_
        )
    if isinstance(result, FitResult) and isinstance(result.model, DiffusionClassifier):
        return _of_classifier(graph, result.model)
    kind = type(result.model if isinstance(result, FitResult) else result).__name__
    raise TypeError(
        "Expected 'result' to be what `fit` returns for a DiffusionClassifier, a fitted "
        f"DiffusionClusterer or Findings (got {kind})."
    )


def _on_cpu(value: Any) -> Any:
    return value.detach().cpu() if isinstance(value, Tensor) else value  # which is checked later


@torch.no_grad()
def _of_classifier(graph: TrainingGraph, model: DiffusionClassifier) -> Findings:
    given = (graph.x, graph.edge_index, graph.edge_weight)
    inputs: list[Any] = [each if each is None else each.to(model.t.device) for each in given]
    labels, conductances = model(*inputs).argmax(-1), model.conductances(*inputs)
    normalization = model.isotropic.options.normalization
    return Findings(labels.cpu(), conductances.cpu(), float(model.t), normalization)


def _fitted_graph(data: Any, clusterer: DiffusionClusterer) -> Data:
    """Return the graph that the clusterer made of its points."""
    given = _on_cpu(data.x if isinstance(data, Data) else data)
    if not clusterer.was_fitted_to(given):
        raise ValueError(
            "Expected 'data' to hold the points that the clusterer was fitted to, in their order "
            f"(got others, of shape {list(np.shape(given))})."
        )
    return Data(
        x=torch.from_numpy(clusterer.points_),
        edge_index=torch.from_numpy(clusterer.edge_index_),
        edge_weight=torch.from_numpy(clusterer.edge_weight_),
        y=data.get("y") if isinstance(data, Data) else None,
    )


def _check(found: Findings, graph: TrainingGraph, structure: GraphStructure) -> None:
    """Raise unless the findings are of this graph."""
    check_labels("result.labels", found.labels, len(graph.x))
    for level in found.levels:
        check_labels("result.levels", level, len(graph.x))
    check_conductance("result.conductances", found.conductances, structure.num_edges)
    structure.read_symmetric("result.conductances", found.conductances)
    check_nonnegative("result.t", found.t)
    check_choice("result.normalization", found.normalization, NORMALIZATIONS)
