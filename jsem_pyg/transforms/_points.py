"""The attribute that holds the points of a graph, and their metric."""

import logging

from torch import Tensor
from torch_geometric.data import Data

from .._checks import check_tensor
from ..graph import points as graph_points

logger = logging.getLogger(__name__)

METRICS = ("auto", *graph_points.METRICS)


def points_name(data: Data) -> str:
    """The attribute that holds the points: "x", or "pos" where there is none."""
    for name in ("x", "pos"):
        if data.get(name) is not None:
            return name
    raise ValueError("Expected 'data' to have points in 'x' or 'pos' (got neither).")


class MetricPoints:
    """Reads the points of graphs, and logs the attribute and the metric, once for each attribute.

    Args:
        metric: "cosine", "l2" or "auto": positions are compared by their distance, features by
            their cosine.
        kernel: "cosine" is a function of the cosine alone, so that "auto" means it there.
    """

    def __init__(self, metric: str, kernel: str | None = None) -> None:
        self.metric = metric
        self.kernel = kernel
        self._logged: set[str] = set()

    def read(self, data: Data) -> tuple[Tensor, str]:
        """The points [N, F] of a graph, and "cosine" or "l2"."""
        name = points_name(data)
        check_tensor(name, data[name])
        metric = self.metric
        if metric == "auto":
            metric = "l2" if name == "pos" and self.kernel != "cosine" else "cosine"
        if name not in self._logged:
            logger.info("Neighbours of data.%s, metric=%r.", name, metric)
            self._logged.add(name)
            columns = data[name].size(-1) if data[name].dim() else 0
            if self.metric == "auto" and metric == "cosine" and columns in (2, 3):
                logger.warning(
                    "data.%s has %d columns and is compared by the cosine, which sees directions "
                    "only. For positions, pass metric='l2'.",
                    name,
                    columns,
                )
        return data[name], metric
