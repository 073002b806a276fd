"""Kernels on a graph: functions of its Laplacian, as covariances of its nodes."""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import Module
from torch.utils.checkpoint import checkpoint
from torch_geometric.data import Data

from ...diffusion.filter_coefficients import cosine_coefficients
from ...diffusion.filters import FilterBank, FromFunction
from ...graph import GraphStructure
from ...graph.reader import check_data, read_data
from ...nn.conductance import conduct
from ...operators.laplacian import laplacian_entries, scipy_matrix

LARGEST_DENSE = 2_000  # nodes of a graph with exact kernels and variances, by its eigenvectors
TIMES = np.geomspace(0.03, 1e3, 31)  # over the mean degree
PANEL, PANEL_SIZE = 256, 2**25  # columns that are diffused at once, and numbers in them
NARROW = 16  # columns of the panels from which only a few rows are taken
FEW = 8  # kernels that take less time together than all terms of the series do
ROUNDING = 1e-14  # of functions of the eigenvalues, next to which a part of them is none
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
    kept: dict[str | None, tuple[Tensor, Tensor]] = field(default_factory=dict)  # by `modes`

    @property
    def is_small(self) -> bool:
        """Whether kernels are computed by all eigenvectors."""
        return self.structure.num_nodes <= LARGEST_DENSE

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

    @torch.no_grad()
    def frozen(self, least: float = 0.0) -> "Field":
        """Return the field of the weights times conductances of now, zero below the least."""
        h = self.conducts()
        weight = self.edge_weight if h is None else self.edge_weight * h * (h >= least)
        return self if h is None else replace(self, edge_weight=weight, conductance=None, kept={})

    def times(self, kernel: Kernel) -> Tensor:
        """List times of a kernel, in which heat spreads little and far."""
        return torch.from_numpy(TIMES) / (self.mean_degree if kernel.normalization is None else 1.0)

    def filter(
        self, x: Tensor, nodes: Tensor | None, kernel: Kernel, t: Tensor | float, power: float = 1.0
    ) -> Tensor:
        """Filter columns [M, P] that live on some nodes, or on all (None): [N, P]."""
        if nodes is not None:
            x = x.new_zeros(self.structure.num_nodes, x.size(1)).index_copy(0, nodes, x)
        function = FromFunction(lambda value: kernel(t, value) ** power)
        weight, kind = self.conducted(), kernel.normalization
        out: Tensor = function(x, self.structure, weight, normalization=kind, tol=TOL)
        return out

    def covariance(self, nodes: Tensor, kernel: Kernel, t: Tensor) -> Tensor:
        """Compute K at some nodes, [M, M], with its gradient."""
        if self.conductance is None and self.is_small:
            value, mode = self.modes(kernel.normalization)
            return (mode[nodes] * kernel(t, value)) @ mode[nodes].T

        def rows(panel: Tensor) -> Tensor:
            return self.filter(panel, nodes, kernel, t)[nodes]

        panels = torch.eye(len(nodes), dtype=torch.float64).split(self.width, 1)
        if len(panels) == 1:
            found = rows(panels[0])
        else:  # The backward pass computes each again, so that one alone takes memory.
            found = torch.cat([checkpoint(rows, p, use_reentrant=False) for p in panels], -1)
        return (found + found.mT) / 2

    @torch.no_grad()
    def modes(self, normalization: str | None) -> tuple[Tensor, Tensor]:
        """Compute all eigenvalues [N] and eigenvectors [N, N], once, for edges that are given."""
        if normalization not in self.kept:
            laplacian = laplacian_entries(self.structure, self.conducted(), normalization)
            dense = scipy_matrix(self.structure, laplacian).toarray()
            value, mode = (torch.from_numpy(each) for each in np.linalg.eigh(dense))
            self.kept[normalization] = laplacian.rate * (1 - value), mode
        return self.kept[normalization]

    @torch.no_grad()
    def entries(self, kernels: list[tuple[Kernel, float]], columns: Tensor, rows: Tensor) -> Tensor:
        """Compute K of several kernels of one Laplacian at rows and columns: [F, R, M]."""
        normalization = kernels[0][0].normalization

        def response(value: Tensor) -> Tensor:
            return torch.stack([kernel(t, value) for kernel, t in kernels])

        if self.is_small:
            value, mode = self.modes(normalization)
            share, part = _few(response(value))
            few = torch.stack([(mode[rows] * f) @ mode[columns].T for f in part])
            return (share @ few.flatten(1)).unflatten(1, few.shape[1:])

        found: list[Tensor] = []
        if len(kernels) <= FEW:  # compiled code adds up the terms of each
            bank = FilterBank(*(FromFunction(partial(kernel.__call__, t)) for kernel, t in kernels))
            options = {"normalization": normalization, "tol": TOL}
            for panel in columns.split(max(1, self.width // len(kernels))):
                unit = torch.zeros(self.structure.num_nodes, len(panel), dtype=torch.float64)
                unit[panel, range(len(panel))] = 1
                found.append(bank(unit, self.structure, self.conducted(), **options)[:, rows])
            return torch.cat(found, -1)

        laplacian = laplacian_entries(self.structure, self.conducted(), normalization)
        step, rate = 2 * scipy_matrix(self.structure, laplacian), laplacian.rate
        share, part = _few(cosine_coefficients(response, rate, None, TOL).T)
        kept = np.empty((part.size(1), len(rows), NARROW))
        for panel in columns.split(NARROW):
            term = np.zeros((self.structure.num_nodes, NARROW))
            term[panel.numpy(), range(len(panel))] = 1
            before = step @ term / 2  # T_(-1) = T_1
            for each in kept:
                np.take(term, rows.numpy(), 0, each, "clip")
                after = step @ term
                after -= before
                before, term = term, after
            sums = share @ (part @ torch.from_numpy(kept).flatten(1))
            found.append(sums.unflatten(1, kept.shape[1:])[..., : len(panel)])
        return torch.cat(found, -1)


def _few(functions: Tensor) -> tuple[Tensor, Tensor]:
    """Write functions [F, X], which are much alike, as [F, P] times a few [P, X]."""
    left, size, right = torch.linalg.svd(functions, full_matrices=False)
    count = int((size > ROUNDING * size[0]).sum())
    return left[:, :count] * size[:count], right[:count]


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
