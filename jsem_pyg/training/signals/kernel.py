"""Kernels on a graph: functions of its Laplacian, as covariances of its nodes."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module
from torch.utils.checkpoint import checkpoint
from torch_geometric.data import Data

from ...diffusion.filter_coefficients import cosine_coefficients
from ...diffusion.filters import FromFunction
from ...graph import GraphStructure
from ...graph.reader import check_data, read_data
from ...nn.conductance import conduct
from ...operators.laplacian import laplacian_entries, scipy_matrix

TIMES = np.geomspace(0.03, 1e3, 31)  # over the mean degree
PANEL, PANEL_SIZE = 256, 2**25  # columns that are diffused at once, and numbers in them
NARROW = 64  # of the panels from which only a few rows are taken
TOL = 1e-9  # of the kernel, below what the noise adds to it


class Kernel(NamedTuple):
    """A function of a Laplacian, up to its time."""

    form: str | float  # "heat" or the exponent
    normalization: str | None

    def __call__(self, t: Tensor | float, value: Tensor) -> Tensor:
        """Return f(lambda)."""
        if isinstance(self.form, str):
            return torch.exp(-t * value)
        return (1 + t * value) ** -self.form


@dataclass
class Field:
    """A graph whose edges conduct. Kernels are functions of its Laplacian."""

    structure: GraphStructure
    edge_weight: Tensor  # [E], in float64 as all numbers here
    edge_attr: Tensor | None  # [E, F]
    conductance: Module | None  # of edge_attr
    mean_degree: float = 1.0  # by the conductances at the start

    @property
    def width(self) -> int:
        """How many columns are diffused at once."""
        return max(1, min(PANEL, PANEL_SIZE // max(self.structure.num_nodes, 1)))

    def conducts(self) -> Tensor | None:
        """Compute how well the edges conduct: [E]; None if all conduct alike."""
        x = self.edge_weight.new_empty(self.structure.num_nodes, 0)  # is not looked at
        return conduct(self.structure, x, self.edge_attr, self.conductance, by_ends=False)

    def conducted(self) -> Tensor:
        """Multiply weights by conductances: [E]."""
        h = self.conducts()
        return self.edge_weight if h is None else self.edge_weight * h

    def times(self, kernel: Kernel) -> Tensor:
        """List times of a kernel, in which heat spreads little and far."""
        return torch.from_numpy(TIMES) / (self.mean_degree if kernel.normalization is None else 1.0)

    def filter(
        self,
        columns: Tensor,
        nodes: Tensor | None,
        kernel: Kernel,
        t: Tensor | float,
        power: float = 1.0,
    ) -> Tensor:
        """Filter columns [M, P] that live on some nodes, or on all (None): [N, P]."""
        if nodes is not None:
            x = columns.new_zeros(self.structure.num_nodes, columns.size(1))
            columns = x.index_copy(0, nodes, columns)
        function = FromFunction(lambda value: kernel(t, value) ** power)
        weight, kind = self.conducted(), kernel.normalization
        out: Tensor = function(columns, self.structure, weight, normalization=kind, tol=TOL)
        return out

    def covariance(self, nodes: Tensor, kernel: Kernel, t: Tensor) -> Tensor:
        """Compute K at some nodes, [M, M], with its gradient."""

        def rows(panel: Tensor) -> Tensor:
            return self.filter(panel, nodes, kernel, t)[nodes]

        # The backward pass computes each panel again, so that one alone takes memory.
        panels = torch.eye(len(nodes), dtype=torch.float64).split(self.width, 1)
        found = torch.cat([checkpoint(rows, p, use_reentrant=False) for p in panels], -1)
        return (found + found.mT) / 2

    @torch.no_grad()
    def entries(
        self, kernels: list[tuple[Kernel, float]], columns: Tensor, rows: Tensor | None
    ) -> Tensor:
        """Compute K of several kernels of one Laplacian at rows and columns: [F, R, M].

        Without rows, the diagonal [F, M]. The products are shared, and multiples of few rows added.
        """
        normalization = kernels[0][0].normalization
        laplacian = laplacian_entries(self.structure, self.conducted(), normalization)
        step, rate = scipy_matrix(self.structure, laplacian), laplacian[2]["rate"]

        def response(value: Tensor) -> Tensor:
            return torch.stack([kernel(t, value) for kernel, t in kernels])

        coefficient = cosine_coefficients(response, rate, None, TOL).T.contiguous()
        found = []
        for panel in columns.split(min(NARROW, self.width)):
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


def read_field(data: Data, conductance: Module | None) -> Field:
    """Read a graph, with features of its edges if these say how well they conduct."""
    structure, weight = read_data(data)
    field = Field(structure, weight.double(), None, conductance)
    if conductance is not None:
        check_data(data, "edge_attr")
        structure.check_attr(data.edge_attr)
        field.edge_attr = data.edge_attr.detach().double()
    total = float(field.conducted().detach().sum()) / max(structure.num_nodes, 1)
    field.mean_degree = total if total > 0 else 1.0
    return field
