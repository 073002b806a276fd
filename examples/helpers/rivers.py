"""Fields with barriers, on networks whose edges say if they cross one: rivers, a horseshoe."""

from typing import NamedTuple

import numpy as np
import torch
from scipy.spatial import Delaunay, cKDTree
from sklearn.gaussian_process.kernels import Matern
from torch_geometric.data import Data

NOISE = 0.1
JUMPS = {"river": 4.0, "river with bridges": 4.0, "two rivers": 4.0, "half": 2.0, "none": 0.0}
BRIDGES, WIDTH = (0.25, 0.75), 0.06  # places along the river, half a bridge


class Case(NamedTuple):
    graph: Data  # edge_weight: 1 / length; edge_attr: 1 for edges across water, else 0
    pos: np.ndarray  # [N, 2]
    truth: np.ndarray  # [N]
    side: np.ndarray  # [N] the number of rivers south of a node
    observed: np.ndarray  # [M]
    values: np.ndarray  # [M] truth and noise
    shores: list[np.ndarray]  # the course of each river, [100, 2]


def network(pos: np.ndarray) -> np.ndarray:
    """Return the edges [2, E] of the Delaunay triangulation, each once."""
    corner = Delaunay(pos).simplices
    pairs = np.concatenate([corner[:, [0, 1]], corner[:, [1, 2]], corner[:, [0, 2]]])
    return np.unique(np.sort(pairs, 1), axis=0).T


def between(pos: np.ndarray) -> np.ndarray:
    """Return places of a triangular grid among and around those given, and beyond the outermost.

    Its step is half of the mean distance between places. None is nearer than half a step to one.
    """
    extent = np.ptp(pos, axis=0)
    width, step = np.sqrt(extent.prod()), np.sqrt(extent.prod() / len(pos)) / 2
    low, high = pos.min(0) - 0.15 * width, pos.max(0) + 0.15 * width
    x, y = np.arange(low[0], high[0] + step, step), np.arange(low[1], high[1] + step, 0.866 * step)
    grid = np.stack(np.meshgrid(x, y), -1)
    grid[1::2, :, 0] += step / 2
    grid = grid.reshape(-1, 2)
    away = cKDTree(pos).query(grid)[0]
    return grid[(away > step / 2) & (away < 0.15 * width + step)]


def graph_of(once: np.ndarray, weight: np.ndarray, attr: np.ndarray, num_nodes: int) -> Data:
    """Make a graph of edges, weights and features that are given once for both directions."""
    edges = torch.from_numpy(once).long()
    return Data(
        edge_index=torch.cat([edges, edges.flip(0)], 1),
        edge_weight=torch.from_numpy(weight).double().repeat(2),
        edge_attr=torch.from_numpy(attr).double().reshape(len(weight), -1).repeat(2, 1),
        num_nodes=num_nodes,
    )


def lengths(pos: np.ndarray, once: np.ndarray) -> np.ndarray:
    """Return the length of each edge."""
    return np.linalg.norm(pos[once[0]] - pos[once[1]], axis=1)


def plant(kind: str, draw: int, nodes: int = 600) -> Case:
    """Draw a Matern field (smoothness 1.5, deviation 1) with a jump across each river.

    At a bridge the jump vanishes, and the edges have no mark. "none": edges are marked as for a
    river, and nothing jumps. A fifth of the nodes are observed.
    """
    rng = np.random.default_rng(draw)
    pos = rng.random((nodes, 2))
    x, y = pos.T
    once = network(pos)
    covariance = Matern(0.2, nu=1.5)(pos) + 1e-9 * np.eye(nodes)
    truth = np.linalg.cholesky(covariance) @ rng.normal(size=nodes)
    phase, along = 2 * np.pi * rng.random(), np.linspace(0, 1, 100)
    side, mark, shores = np.zeros(nodes, dtype=int), np.zeros(once.shape[1], dtype=bool), []
    for k, level in enumerate((1 / 3, 2 / 3) if kind == "two rivers" else (0.5,)):

        def course(place: np.ndarray, level: float = level) -> np.ndarray:
            return level + 0.1 * np.sin(2 * np.pi * place + phase)

        north = y > course(x)
        wet, height = north[once[0]] != north[once[1]], np.ones(nodes)
        for bridge in BRIDGES if kind == "river with bridges" else ():
            away = np.hypot(x - bridge, y - course(np.array(bridge)))
            height *= 1 - np.exp(-((away / 0.1) ** 2))
            wet &= abs(x[once].mean(0) - bridge) > WIDTH
        truth = truth + JUMPS[kind] * (north - 0.5) * height * (-1) ** k
        mark, side = mark | wet, side + north
        shores.append(np.stack([along, course(along)], 1))
    seen = np.sort(rng.permutation(nodes)[: nodes // 5])
    values = truth[seen] + NOISE * rng.normal(size=len(seen))
    graph = graph_of(once, 1 / lengths(pos, once), mark, nodes)
    return Case(graph, pos, truth, side, seen, values, shores)


def horseshoe(count: int, draw: int, size: tuple[int, int] = (125, 50)) -> Case:
    """Take Ramsay's horseshoe on a grid; marked edges lead across the gap between its arms.

    Wood, Bravington and Hedley, "Soap film smoothing", 2008: a + d^2 with a the place along the
    arms and d that across them.
    """
    x, y = np.meshgrid(np.linspace(-1, 4, size[0]), np.linspace(-1, 1, size[1]))
    radius, inner, end = 0.5, 0.1, 3.0
    bend = np.pi * radius / 2
    along = np.where(x < 0, -np.arctan(y / np.minimum(x, -1e-9)) * radius, np.sign(y) * (bend + x))
    across = np.where(x < 0, np.hypot(x, y), abs(y)) - radius
    inside = abs(across) <= radius - inner
    inside &= (x <= end) | ((x - end) ** 2 + across**2 <= (radius - inner) ** 2)
    place = np.full(x.shape, -1)
    place[inside] = np.arange(inside.sum())
    row = np.stack([place[:, :-1].ravel(), place[:, 1:].ravel()])
    column = np.stack([place[:-1].ravel(), place[1:].ravel()])
    south, north = size[1] - 1 - (inside & (y < 0))[::-1].argmax(0), (inside & (y > 0)).argmax(0)
    here = np.flatnonzero((x[0] >= 0) & inside.any(0))
    gap = np.stack([place[south[here], here], place[north[here], here]])
    step = (x[0, 1] - x[0, 0]) / (y[1, 0] - y[0, 0])
    parts = [(row, 1 / step, 0), (column, step, 0), (gap, 1.0, 1)]
    parts = [(edges[:, (edges >= 0).all(0)], weight, mark) for edges, weight, mark in parts]
    once = np.concatenate([edges for edges, _, _ in parts], 1)
    weight, mark = (
        np.concatenate([np.full(part[0].shape[1], part[i]) for part in parts]) for i in (1, 2)
    )
    truth, rng = (along + across**2)[inside], np.random.default_rng(draw)
    seen = np.sort(rng.permutation(len(truth))[:count])
    values = truth[seen] + 0.1 * rng.normal(size=count)
    graph = graph_of(once, weight, mark, len(truth))
    pos, side = np.stack([x[inside], y[inside]], 1), (y > 0)[inside].astype(int)
    return Case(graph, pos, truth, side, seen, values, [])
