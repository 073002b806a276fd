"""Heat on triangle meshes, without an eigenvector: distances, signatures, and what they need.

A mesh is a graph whose vertices have masses: cotangent weights and vertex areas, here from
robust-laplacian (Sharp and Crane 2020, "A Laplacian for nonmanifold triangle meshes"). Distances
are by the heat method (Crane, Weischedel and Wardetzky 2013, "Geodesics in heat"), heat kernel
signatures (Sun, Ovsjanikov and Guibas 2009) from random probes.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import igl
import numpy as np
import robust_laplacian
import scipy.sparse
import torch
import trimesh
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import SuperLU, splu
from scipy.spatial import ConvexHull
from scipy.spatial.transform import Rotation
from torch import Tensor

from jsem_pyg.diffusion import diffuse
from jsem_pyg.diffusion.filters import Resolvent
from jsem_pyg.graph import GraphStructure
from jsem_pyg.operators import HeatOperator, laplacian_operator

TIMES = torch.logspace(-3.5, -1, 10, dtype=torch.float64)  # of signatures, at an area of one


@dataclass(frozen=True)
class Triangles:
    """Triangles, each with places of its corners, which may lie in a plane of its own."""

    faces: np.ndarray  # [F, 3] vertices
    corner: np.ndarray  # [F, 3, 3] places

    @cached_property
    def sides(self) -> np.ndarray:
        """The edge [F, 3, 3] opposite of each corner."""
        return np.roll(self.corner, 1, 1) - np.roll(self.corner, -1, 1)

    @cached_property
    def crossed(self) -> np.ndarray:
        """Normals [F, 3], as long as twice the area."""
        return np.cross(self.sides[:, 1], self.sides[:, 2])

    @cached_property
    def area(self) -> np.ndarray:
        """Of each [F]."""
        return np.linalg.norm(self.crossed, axis=1) / 2

    @cached_property
    def slope(self) -> np.ndarray:
        """Gradients [F, 3 corners, 3] of the linear functions that are one at a corner."""
        square = np.square(self.crossed).sum(1).clip(1e-300)
        return np.cross(self.crossed[:, None], self.sides) / square[:, None, None]

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns [F * 9] of a number for every two corners of a triangle."""
        return self.faces.repeat(3, 1).ravel(), np.tile(self.faces, 3).ravel()


@dataclass(frozen=True)
class Surface:
    """A triangle mesh of area one, and what heat on it needs."""

    points: np.ndarray  # [N, 3]
    faces: np.ndarray  # [F, 3]

    @classmethod
    def of(cls, points: np.ndarray, faces: np.ndarray) -> "Surface":
        """Without vertices that no triangle has, and scaled to an area of one."""
        used, faces = np.unique(faces, return_inverse=True)
        points = np.asarray(points, float)[used]
        surface = cls(points, faces.reshape(-1, 3))
        return cls(points / np.sqrt(surface.triangles.area.sum()), surface.faces)

    @cached_property
    def triangles(self) -> Triangles:
        """The faces where they are."""
        return Triangles(self.faces, self.points[self.faces])

    @cached_property
    def delaunay(self) -> Triangles:
        """The intrinsic Delaunay triangulation: the same surface, by triangles of larger angles."""
        length = np.linalg.norm(self.triangles.sides, axis=2)
        slack = (length.sum(1, keepdims=True) - 2 * length).min()
        length = length + max(0.0, 1e-5 * length.mean() - slack)  # no triangle is a line
        length, faces = igl.intrinsic_delaunay_triangulation(length, self.faces)[:2]
        a, b, c = length.T  # opposite of the corners, which are put into a plane
        x = (b**2 + c**2 - a**2) / (2 * c)
        y = np.sqrt((b**2 - x**2).clip(1e-300))
        zero = np.zeros_like(x)
        places = [[zero, zero, zero], [c, zero, zero], [x, y, zero]]
        return Triangles(faces, np.moveaxis(np.array(places), 2, 0))

    @cached_property
    def matrices(self) -> tuple[scipy.sparse.csr_array, np.ndarray]:
        """D - W with intrinsic Delaunay weights, and the mass of every vertex."""
        stiffness, mass = robust_laplacian.mesh_laplacian(self.points, self.faces)
        return scipy.sparse.csr_array(stiffness), mass.diagonal()

    @cached_property
    def graph(self) -> tuple[GraphStructure, Tensor, Tensor]:
        """The prepared graph, its weights [E], and the masses [N]."""
        edges = self.matrices[0].tocoo()
        off = edges.row != edges.col
        edge_index = torch.from_numpy(np.stack([edges.row[off], edges.col[off]]).astype(np.int64))
        weight = check_weights(torch.from_numpy(-edges.data[off]))
        structure = GraphStructure(edge_index, len(self.points))
        return structure, weight, torch.from_numpy(self.matrices[1])

    @cached_property
    def operator(self) -> HeatOperator:
        """M^-1 (D - W), in float64."""
        structure, weight, mass = self.graph
        return laplacian_operator(structure, weight, normalization=None, node_mass=mass)

    def solve(self, right: np.ndarray) -> np.ndarray:
        """The function [N] of given divergence, linear in every Delaunay triangle."""
        order, factors = self._factors
        out = np.empty_like(right)
        out[order] = factors.solve(right[order])
        return out

    @cached_property
    def _factors(self) -> tuple[np.ndarray, SuperLU]:
        each, size = self.delaunay, len(self.points)
        values = np.einsum("f,fix,fjx->fij", each.area, each.slope, each.slope)
        matrix = scipy.sparse.coo_array((values.ravel(), each.pairs()), (size, size)).tocsc()
        # A constant may be added on each part: a little of the identity settles it.
        matrix += 1e-10 * scipy.sparse.diags_array(self.matrices[1], format="csc")
        # Minimum degree is ten times slower on regular meshes as they come.
        order = reverse_cuthill_mckee(matrix, symmetric_mode=True)
        options = {"SymmetricMode": True}
        matrix = matrix[order][:, order]
        return order, splu(matrix, "MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)

    @cached_property
    def frame(self) -> np.ndarray:
        """Normal and two tangents [N, 3, 3] of every vertex, a right-handed frame."""
        normal = np.zeros_like(self.points)
        for corner in self.faces.T:
            np.add.at(normal, corner, self.triangles.crossed)
        normal /= np.linalg.norm(normal, axis=1, keepdims=True).clip(1e-300)
        axis = np.eye(3)[np.abs(normal).argmin(1)]
        first = np.cross(normal, axis)
        first /= np.linalg.norm(first, axis=1, keepdims=True).clip(1e-300)
        return np.stack([normal, first, np.cross(normal, first)], 1)

    @cached_property
    def tangent_gradient(self) -> tuple[Tensor, Tensor]:
        """Two sparse matrices [N, N] of float32: derivatives along the tangents at every vertex."""
        each, size = self.triangles, len(self.points)
        share = np.bincount(self.faces.ravel(), each.area.repeat(3), size)
        share = (each.area[:, None] / share[self.faces].clip(1e-300))[:, :, None]
        found = []
        for tangent in (1, 2):
            along = self.frame[self.faces, tangent]  # [F, 3 vertices, 3]
            values = torch.from_numpy(share * np.einsum("fix,fjx->fij", along, each.slope))
            index = torch.from_numpy(np.stack(each.pairs()))
            matrix = torch.sparse_coo_tensor(
                index, values.flatten().float(), (size, size), check_invariants=True
            )
            found.append(matrix.coalesce())
        return found[0], found[1]


def check_weights(weight: Tensor) -> Tensor:
    """Return the weights, without rounding errors below zero; others below zero are refused."""
    if weight.numel() and not bool(weight.min() >= -1e-5):  # to which its angles are Delaunay
        raise ValueError(
            "Expected 'edge_weight' to be non-negative, as cotangents of an intrinsic Delaunay "
            f"triangulation are (got {int((weight < 0).sum())} negative ones, the smallest "
            f"{float(weight.min()):.3g})."
        )
    return weight.clamp_min(0)


def log_resolvent(surface: Surface, sources: np.ndarray, t: float) -> np.ndarray:
    """Logarithms [N, S] of (I + t L)^-1 of a point source in each column.

    They fall as exp(-distance / sqrt t), soon below what floating point adds up to. So nodes whose
    value is precise are kept, and what they send to the others is the source of the next round.
    """
    stiffness, mass = surface.matrices
    columns = np.arange(len(sources))
    rest = np.zeros((len(mass), len(sources)))
    rest[sources, columns] = 1.0
    out, scale = np.full_like(rest, -np.inf), np.zeros(len(sources))
    pattern = (stiffness != 0).astype(float)
    todo = np.ones_like(rest, dtype=bool)
    while True:
        u = diffuse(torch.from_numpy(rest), surface.operator, Resolvent(t), tol=1e-12).numpy()
        u = np.where(todo, u, 0.0)
        kept = u > 1e-8 * u.max(0).clip(1e-300)
        if not kept.any():
            return out
        u = np.where(kept, u, 0.0)
        out = np.where(kept, np.log(u, where=kept, out=np.zeros_like(u)) + scale, out)
        todo &= ~kept
        rest = rest - u - t * (stiffness @ u) / mass[:, None]
        rest = np.where(pattern @ todo.astype(float) > 0, rest, 0.0)  # at the front alone
        size = np.abs(rest).max(0)
        size = np.where(size > 0, size, 1.0)
        rest, scale = rest / size, scale + np.log(size)


def distances(surface: Surface, sources: np.ndarray, factor: float = 1.0) -> np.ndarray:
    """Distances [N, S] along the surface from each source; infinite on parts it is not on.

    Args:
        surface: the mesh.
        sources: [S] vertices.
        factor: t over the square of the mean edge: larger is smoother.
    """
    each = surface.delaunay
    edge = np.linalg.norm(each.sides, axis=2).mean()
    height = log_resolvent(surface, sources, factor * edge**2)
    found = []
    for source, column in zip(sources, height.T, strict=True):
        value = column[each.faces]
        top = value.max(1, keepdims=True)
        value = np.exp(value - np.where(np.isfinite(top), top, 0.0))
        direction = -np.einsum("fi,fix->fx", value, each.slope)
        direction /= np.linalg.norm(direction, axis=1, keepdims=True).clip(1e-300)
        flow = each.area[:, None] * np.einsum("fix,fx->fi", each.slope, direction)
        divergence = np.bincount(each.faces.ravel(), flow.ravel(), len(column))
        distance = surface.solve(divergence)
        found.append(np.where(np.isfinite(column), distance - distance[source], np.inf))
    return np.stack(found, 1)


def kernel_columns(surface: Surface, times: Tensor, at: np.ndarray) -> np.ndarray:
    """Heat kernel signatures [T, P] of chosen vertices, exact: a column of exp(-t L) for each."""
    unit = torch.zeros(len(surface.points), len(at), dtype=torch.float64)
    unit[at, range(len(at))] = 1 / torch.from_numpy(surface.matrices[1][at])
    return diffuse(unit, surface.operator, times)[:, at, range(len(at))].numpy()


def signatures(
    surface: Surface, times: Tensor = TIMES, probes: int = 128, seed: int = 0
) -> np.ndarray:
    """Heat kernel signatures [T, N] of all vertices, with a relative error of sqrt(2 / probes).

    With white noise z, the variance of exp(-t L / 2) M^(-1/2) z is the diagonal of the heat kernel,
    by the law of the semigroup; all times share the products.
    """
    generator = torch.Generator().manual_seed(seed)
    mass = torch.from_numpy(surface.matrices[1]).float()
    total = np.zeros((len(times), len(mass)))
    for start in range(0, probes, 64):
        count = min(64, probes - start)
        noise = torch.randn(len(mass), count, generator=generator) / mass.sqrt().unsqueeze(1)
        heat = diffuse(noise, surface.operator, times / 2, tol=1e-4)
        total += heat.square().sum(-1).numpy()
    return total / probes


@dataclass(frozen=True)
class Labelled:
    """A surface, features of its vertices, and their parts, -1 where unknown."""

    surface: Surface
    x: Tensor  # [N, T]
    part: Tensor  # [N]

    @classmethod
    def of(cls, surface: Surface, part: np.ndarray, seed: int) -> "Labelled":
        """With signatures for features: logarithms, standardised for each time."""
        x = torch.from_numpy(np.log(signatures(surface, seed=seed))).T.float()
        return cls(surface, (x - x.mean(0)) / x.std(0), torch.from_numpy(part))


def sphere(num_points: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of a sphere, along a spiral, and the triangles of their convex hull."""
    step = np.arange(num_points) + 0.5
    z, turn = 1 - 2 * step / num_points, np.pi * (1 + 5**0.5) * step
    radius = np.sqrt(1 - z**2)
    points = np.stack([radius * np.cos(turn), radius * np.sin(turn), z], 1)
    faces = ConvexHull(points).simplices
    corner = points[faces]
    inside = np.linalg.det(corner) < 0
    faces[inside] = faces[inside, ::-1]
    return points, faces


LIMBS = np.array(
    [[0, 0, 1], [0.9, 0, 0.4], [-0.9, 0, 0.4], [0.4, 0, -0.9], [-0.4, 0, -0.9], [0, 1, 0]]
)
LENGTHS = np.array([0.4, 0.8, 0.8, 1.1, 1.1, 0.3])  # head, arms, legs, belly


def body(num_points: int, rng: np.random.Generator) -> tuple[Surface, np.ndarray]:
    """A sphere with six bumps, each body with others, turned anywhere; and the nearest bump."""
    points, faces = sphere(num_points)
    points = points @ Rotation.random(random_state=rng).as_matrix()
    limbs = LIMBS + rng.normal(scale=0.08, size=LIMBS.shape)
    limbs /= np.linalg.norm(limbs, axis=1, keepdims=True)
    lengths = LENGTHS * rng.uniform(0.8, 1.2, len(LENGTHS))
    near = points @ limbs.T
    radius = 1 + np.exp((near - 1) / rng.uniform(0.06, 0.09, len(limbs))) @ lengths
    points = points * radius[:, None] @ Rotation.random(random_state=rng).as_matrix()
    return Surface.of(points, faces), near.argmax(1)


def read(path: Path) -> Surface:
    """A mesh of any kind that trimesh reads, its vertices in their order."""
    mesh = trimesh.load_mesh(path, process=False)
    return Surface.of(np.asarray(mesh.vertices), np.asarray(mesh.faces))


def read_folder(folder: Path, count: int, regions: int = 12) -> list[Labelled]:
    """Meshes with the regions of the first of them, which follow the points of the template."""
    paths = sorted(each for each in folder.glob("*.off") if each.with_suffix(".vts").exists())
    if len(paths) < 5:
        raise SystemExit(f"Expected at least 5 files .off beside .vts in {folder}.")
    found, region = [], None
    for path in paths[:: max(len(paths) // count, 1)]:
        surface, vertex = read(path), np.loadtxt(path.with_suffix(".vts"), dtype=int) - 1
        if region is None:
            region = nearest_of_far_points(surface, regions)[vertex]
        part = np.full(len(surface.points), -1)
        part[vertex] = region
        found.append(Labelled.of(surface, part, len(found)))
    return found


def nearest_of_far_points(surface: Surface, count: int) -> np.ndarray:
    """The nearest [N] of so many vertices, each as far as possible from those before."""
    found = distances(surface, np.array([0]))
    columns = []
    for _ in range(count):
        least = np.min(columns, 0) if columns else found[:, 0]
        columns.append(distances(surface, np.array([least.argmax()]))[:, 0])
    return np.argmin(columns, 0)
