"""How fast is traffic where no sensor is? Road sensors, interpolated by heat on their network.

Some sensors are hidden, in fresh draws. Their speeds are interpolated from the others by a
Gaussian process on the road graph (`jsem_pyg.training.interpolate`), on which every edge conducts
alike or learns how well it conducts, and by methods that know the map only. What is chosen by hand
was chosen on the first half of the snapshots (`--choose`); the table is of the second half.

    python examples/benchmarks/road_sensors.py  # a small made-up ring road, seconds
    python examples/benchmarks/road_sensors.py --data metr_la_week.npz  # METR-LA, 20 draws, minutes
    python examples/benchmarks/road_sensors.py --data metr_la_week.npz --choose

The file has `adjacency` [N, N], exp(-d^2) of directed road distances, `latlon` [N, 2] and `speed`
[T, N]. Writes road_sensors.csv, a row a draw and method, and road_sensors.png, a map of the edges
drawn by conductance, into --output. What came out is in `examples/results/road_sensors.md`.
"""

import itertools
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from matplotlib.collections import LineCollection
from reporting import parser_of
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern, WhiteKernel
from sklearn.neighbors import KNeighborsRegressor
from torch import Tensor
from torch_geometric.data import Data

from jsem_pyg.nn import SigmoidConductance
from jsem_pyg.training import interpolate

FEATURES = ["distance", "one way", "same direction"]
CHOSEN = ["same direction"]  # on the first half, as the next three numbers
TWO_WAY = 0.1  # factor of the edges that are known both ways, by hand
NEIGHBOURS, POWER = 10, 1.0


class Sensors(NamedTuple):
    adjacency: np.ndarray  # [N, N], from the row to the column
    latlon: np.ndarray  # [N, 2]
    speed: np.ndarray  # [T, N]


class Guess(NamedTuple):
    mean: Tensor  # [N, S]
    deviation: Tensor  # [N] or [N, S], of a measured speed; NaN if the method gives none
    conductance: Tensor | None = None  # [E]


def read(path: Path) -> Sensors:
    with np.load(path) as file:
        return Sensors(*(file[name] for name in Sensors._fields))


def made_up(num_pairs: int = 30, num_snapshots: int = 48, seed: int = 0) -> Sensors:
    """Make a ring road with sensors on both sides; the sides jam at other times."""
    rng = np.random.default_rng(seed)
    n, place = 2 * num_pairs, np.tile(np.arange(num_pairs), 2)
    side = np.repeat([1, -1], num_pairs)
    adjacency = np.eye(n)
    for a, b in itertools.product(range(n), range(n)):
        if side[a] == side[b] and place[b] - place[a] == side[a]:
            adjacency[a, b] = math.exp(-0.5)  # downstream
        elif side[a] != side[b] and place[a] == place[b]:
            adjacency[a, b] = math.exp(-0.1)  # across, both ways
    round_trip, radius = 2 * np.pi * place / (num_pairs + 3), 0.05 + 0.002 * side
    latlon = np.stack([34 + radius * np.sin(round_trip), radius * np.cos(round_trip) - 118], 1)
    wave = rng.normal(size=(num_snapshots, 2, 4))
    angle = place[:, None] / num_pairs * np.pi * np.arange(4)
    jams = np.einsum("tsk,nk->tsn", wave, np.cos(angle))
    speed = 55 + 5 * np.where(side > 0, jams[:, 0], jams[:, 1])
    return Sensors(adjacency, latlon, speed + rng.normal(size=speed.shape))


def road_graph(sensors: Sensors) -> Data:
    """Make an undirected graph; the directions of its roads become features of the edges."""
    near = torch.from_numpy(sensors.adjacency).double().fill_diagonal_(0)
    lat, lon = torch.from_numpy(sensors.latlon).double().T
    pos = torch.stack([lon * math.cos(math.radians(float(lat.mean()))), lat], 1) * 111.2  # km
    row, col = (near + near.T).nonzero().T
    weight = torch.maximum(near, near.T)[row, col]
    is_one_way = torch.minimum(near, near.T)[row, col] == 0
    # Where traffic heads at a sensor: the mean direction of the roads that only lead one way.
    one_way = torch.where(near.T == 0, near, 0)
    step = F.normalize(pos[None] - pos[:, None], dim=-1)
    heading = F.normalize(torch.einsum("ij,ijk->ik", one_way - one_way.T, step))
    features = [
        (-weight.log()).clamp(min=1e-3).log(),
        is_one_way.double(),
        (heading[row] * heading[col]).sum(1),
    ]
    attr = torch.stack(features, 1)
    attr = (attr - attr.mean(0)) / attr.std(0).clamp(min=1e-6)
    graph = Data(edge_index=torch.stack([row, col]), edge_weight=weight, edge_attr=attr, pos=pos)
    graph.is_one_way = is_one_way
    return graph


def gaussian(
    graph: Data, y: Tensor, observed: Tensor, features: list[str] | None = None, **options: str
) -> Guess:
    """Interpolate on the graph; its edges learn their conductance from features, if there are."""
    conductance = None
    if features:
        graph = graph.clone()
        graph.edge_attr = graph.edge_attr[:, [FEATURES.index(name) for name in features]]
        conductance = SigmoidConductance(len(features))
    found = interpolate(graph, y, observed, conductance=conductance, **options)
    deviation = (found.deviation.square() + found.noise**2).sqrt()
    return Guess(found.mean, deviation, found.conductance)


def by_hand(graph: Data, y: Tensor, observed: Tensor) -> Guess:
    """Let heat flow along one-way roads, and little across."""
    graph = graph.clone()
    graph.edge_weight = graph.edge_weight * torch.where(graph.is_one_way, 1.0, TWO_WAY)
    return gaussian(graph, y, observed)


def neighbours(graph: Data, y: Tensor, observed: Tensor, k: int, power: float) -> Guess:
    """Average the k nearest sensors on the map, by a power of the inverse distance."""

    def weights(distance: np.ndarray) -> np.ndarray:
        return 1 / np.maximum(distance, 0.01) ** power

    model = KNeighborsRegressor(k, weights=weights).fit(graph.pos[observed], y)
    return Guess(
        torch.from_numpy(model.predict(graph.pos)), torch.full((len(graph.pos),), math.nan)
    )


def kriging(graph: Data, y: Tensor, observed: Tensor) -> Guess:
    """Interpolate on the map, by scikit-learn's Gaussian process."""
    shift, scale = y.mean(0), float(y.std())
    kernel = Matern(1.0, (0.1, 100), nu=0.5) + WhiteKernel(0.1)
    model = GaussianProcessRegressor(kernel).fit(graph.pos[observed], (y - shift) / scale)
    mean, deviation = model.predict(graph.pos, return_std=True)
    return Guess(torch.from_numpy(mean) * scale + shift, torch.from_numpy(deviation[:, 0]) * scale)


HEAT = {"kernel": "heat", "normalization": "sym"}
METHODS: dict[str, Callable[[Data, Tensor, Tensor], Guess]] = {
    "kernels averaged, every edge alike": gaussian,
    "kernels averaged, learned conductance": lambda *given: gaussian(*given, CHOSEN),
    "kernels averaged, one-way roads by hand": by_hand,
    "heat, every edge alike": lambda *given: gaussian(*given, **HEAT),
    "heat, learned conductance": lambda *given: gaussian(*given, CHOSEN, **HEAT),
    "heat by D - W, every edge alike": lambda *given: gaussian(
        *given, kernel="heat", normalization=None
    ),
    "kriging on the map": kriging,
    "inverse distance": lambda graph, y, observed: neighbours(
        graph, y, observed, len(observed), POWER
    ),
    "nearest sensors": lambda graph, y, observed: neighbours(graph, y, observed, NEIGHBOURS, 0.0),
}


def score(
    method: Callable[[Data, Tensor, Tensor], Guess], graph: Data, y: Tensor, seed: int, hidden: int
) -> tuple[dict[str, float], Guess]:
    """Hide some sensors, and compare what a method says of them with what they measured."""
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(seed))
    hide, observed = order[:hidden], order[hidden:]
    began = time.process_time()
    guess = method(graph, y[observed], observed)
    seconds = time.process_time() - began
    error, deviation = (guess.mean - y)[hide], guess.deviation.reshape(len(y), -1)[hide]
    normal = torch.distributions.Normal(0.0, deviation, validate_args=False)
    inside = (error.abs() < 1.96 * deviation).double().mean()
    row = {
        "RMSE": float(error.square().mean().sqrt()),
        "log likelihood": float(normal.log_prob(error).mean()),
        "inside 95 %": math.nan if deviation.isnan().any() else float(inside),
        "CPU s": seconds,
    }
    return row, guess


def choose(graph: Data, y: Tensor, splits: int, hidden: int) -> pd.DataFrame:
    """Compare what could be chosen, on other draws."""
    ways: dict[str, Callable[[Data, Tensor, Tensor], Guess]] = {}
    for size in range(len(FEATURES) + 1):
        for names in itertools.combinations(FEATURES, size):
            ways[f"learned by {names}"] = lambda *given, names=names: gaussian(*given, list(names))
    for power in (0.5, 1.0, 2.0):
        ways[f"inverse distance to the power {power}"] = lambda graph, y, observed, power=power: (
            neighbours(graph, y, observed, len(observed), power)
        )
    for k in (2, 3, 5, 10, 20):
        ways[f"{k} nearest"] = lambda *given, k=k: neighbours(*given, k, 0.0)
    rows = {
        name: [score(way, graph, y, 1000 + seed, hidden)[0]["RMSE"] for seed in range(splits)]
        for name, way in ways.items()
    }
    return pd.DataFrame(rows).T.agg(["mean", "std"], axis=1).round(2)


def draw(graph: Data, conductance: Tensor, path: Path) -> None:
    """Draw the roads, those that conduct well in dark and wide lines."""
    pos, (row, col) = graph.pos.numpy(), graph.edge_index
    order = conductance.argsort()
    order = order[(row < col)[order]]
    share = (conductance / conductance.max()).numpy()[order]
    figure, axes = plt.subplots(figsize=(9, 6), layout="constrained")
    lines = LineCollection(
        pos[graph.edge_index.T[order].numpy()], cmap="viridis_r", array=share, clim=(0, 1)
    )
    lines.set_linewidth(0.4 + 2.2 * share)
    axes.add_collection(lines)
    axes.scatter(*pos.T, s=9, color="black", zorder=2)
    axes.set_aspect("equal")
    axes.set_axis_off()
    figure.colorbar(lines, label="conductance, over the largest", shrink=0.7)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(argv: list[str] | None = None) -> pd.DataFrame:
    parser = parser_of(__doc__, "output")
    parser.add_argument("--data", type=Path, help="a file; a made-up ring road if omitted")
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--share", type=float, default=0.24, help="of the sensors that are hidden")
    parser.add_argument("--every", type=int, default=12, help="take every n-th snapshot")
    parser.add_argument("--choose", action="store_true", help="compare choices on the first half")
    args = parser.parse_args(argv)
    sensors = read(args.data) if args.data else made_up()
    speed = torch.from_numpy(sensors.speed).double()
    half, every = len(speed) // 2, args.every if args.data else 1
    graph, hidden = road_graph(sensors), round(args.share * speed.size(1))
    if args.choose:
        table = choose(graph, speed[:half:every].T, args.splits, hidden)
        print(table.to_string())
        return table
    y, rows = speed[half::every].T, []
    for name, method in METHODS.items():
        for seed in range(args.splits):
            row, guess = score(method, graph, y, seed, hidden)
            rows.append({"method": name, "draw": seed} | row)
            if name == "kernels averaged, learned conductance" and seed == 0:
                first = guess
    args.output.mkdir(parents=True, exist_ok=True)
    runs = pd.DataFrame(rows)
    runs.round(4).to_csv(args.output / "road_sensors.csv", index=False)
    draw(graph, first.conductance, args.output / "road_sensors.png")
    table = runs.drop(columns="draw").groupby("method", sort=False).agg(["mean", "std"])
    print(f"{len(y)} sensors, {hidden} hidden, {y.size(1)} snapshots, {args.splits} draws\n")
    print(table.round(3).to_string())
    return table


if __name__ == "__main__":
    main()
