"""A conductance trained in JAX: heat before a linear classifier, with a few labels of each class.

    python examples/jax_conductance.py                                 # digits, no file needed
    python examples/jax_conductance.py --embeddings embeddings.npz     # with x [N, D] and y [N]

Five ways, each trained by optax on the same labels: no heat, and heat for t = 5 or a learned time,
with every edge open or with edges that conduct as a logistic function of their geometry says
(curvature, overlap, contrast of degrees, rank, cosine after a short diffusion). The table has the
accuracy on all nodes without a label, which nothing else looks at. Needs the extra [jax] and optax.
"""

import argparse
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent / "study"))

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pandas as pd
import torch
from edge_geometry import with_geometry
from sklearn.datasets import load_digits
from sklearn.preprocessing import Normalizer
from torch_geometric.data import Data

from jsem_pyg.graph import GraphStructure
from jsem_pyg.jax import heat_diffusion
from jsem_pyg.transforms import FaissKNNGraph, FormanCurvature

LONGEST = 20.0  # the learned time stays below
LEAST = 0.01  # what a closed edge still conducts
FIXED = 5.0  # the time that is not learned, and where learning starts


@dataclass(frozen=True)
class Way:
    heats: bool = True
    learns_time: bool = False
    learns_conductance: bool = False


WAYS = {
    "no heat": Way(heats=False),
    "t = 5, every edge open": Way(),
    "t = 5, learned conductance": Way(learns_conductance=True),
    "learned t, every edge open": Way(learns_time=True),
    "learned t and conductance": Way(learns_time=True, learns_conductance=True),
}


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--embeddings", type=Path, help=".npz file of points x [N, D], labels y")
    parser.add_argument("--points", type=int, help="take only so many, at random")
    parser.add_argument("--k", type=int, default=15, help="neighbours of a point")
    parser.add_argument("--labels", type=int, nargs="+", default=[2, 5, 20], help="of each class")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--output", type=Path, default=Path("output"))
    return parser.parse_args(argv)


def load(args: argparse.Namespace) -> tuple[Data, np.ndarray]:
    """The neighbour graph of the points, its edges with their geometry, and the labels."""
    if args.embeddings is None:
        x, y = load_digits(return_X_y=True)
    else:
        with np.load(args.embeddings, allow_pickle=False) as file:
            x, y = file["x"], file["y"]
    if args.points is not None:
        kept = np.random.default_rng(0).permutation(len(x))[: args.points]
        x, y = x[kept], y[kept]
    data = Data(x=torch.from_numpy(Normalizer().fit_transform(x.astype(np.float32))))
    for transform in (FaissKNNGraph(args.k), FormanCurvature(), with_geometry):
        data = transform(data)
    return data, np.unique(y, return_inverse=True)[1]


def initial(way: Way, num_features: int, channels: int, num_classes: int) -> dict[str, Any]:
    """Parameters: nearly open edges, t = 5, and a classifier that knows nothing."""
    params = {"matrix": jnp.zeros((channels, num_classes)), "bias": jnp.zeros(num_classes)}
    if way.heats:
        params["time"] = jax.scipy.special.logit(FIXED / LONGEST)
    if way.learns_conductance:
        params["slope"], params["offset"] = jnp.zeros(num_features), jnp.array(3.0)
    return params


def conductance(params: dict[str, Any], edge_attr: jax.Array) -> jax.Array | float:
    """[E, F] -> [E], in (LEAST, 1)."""
    if "slope" not in params:
        return 1.0
    return LEAST + (1 - LEAST) * jax.nn.sigmoid(edge_attr @ params["slope"] + params["offset"])


def time(params: dict[str, Any]) -> jax.Array:
    return LONGEST * jax.nn.sigmoid(params["time"])


def logits(params: dict[str, Any], inputs: dict[str, Any]) -> jax.Array:
    x = inputs["x"]
    if "time" in params:
        weight = inputs["edge_weight"] * conductance(params, inputs["edge_attr"])
        x = heat_diffusion(x, inputs["graph"], weight, time(params), tol=1e-5)
    x = x / jnp.linalg.norm(x, axis=1, keepdims=True)
    return 10 * x @ params["matrix"] + params["bias"]  # rows of length one need large weights


@partial(jax.jit, static_argnames=("way", "steps"))
def train(way: Way, params: Any, inputs: dict[str, Any], taught: Any, steps: int) -> Any:
    """Descend on the cross-entropy of the nodes `taught` = (nodes, classes)."""
    nodes, classes = taught
    optimizer = optax.adam(0.05)

    def loss(params: dict[str, Any]) -> jax.Array:
        if way.heats and not way.learns_time:
            params = params | {"time": jax.lax.stop_gradient(params["time"])}
        chosen = logits(params, inputs)[nodes]
        return optax.softmax_cross_entropy_with_integer_labels(chosen, classes).mean()

    def step(carry: Any, _: None) -> Any:
        params, state = carry
        value, gradient = jax.value_and_grad(loss)(params)
        update, state = optimizer.update(gradient, state, params)
        return (optax.apply_updates(params, update), state), value

    (params, _), history = jax.lax.scan(step, (params, optimizer.init(params)), length=steps)
    return params, history


def few(y: np.ndarray, each: int, seed: int) -> np.ndarray:
    """So many nodes of each class."""
    order = np.random.default_rng(seed).permutation(len(y))
    return np.concatenate([order[y[order] == label][:each] for label in np.unique(y)])


def compare(args: argparse.Namespace, data: Data, y: np.ndarray) -> pd.DataFrame:
    graph = GraphStructure(data.edge_index, data.num_nodes)
    arrays = {name: jnp.asarray(data[name].numpy()) for name in ("x", "edge_weight", "edge_attr")}
    inputs, rows = {"graph": graph, **arrays}, []
    start, end = y[data.edge_index.numpy()]
    for each in args.labels:
        for seed in range(args.seeds):
            nodes = few(y, each, seed)
            unseen = np.setdiff1d(np.arange(len(y)), nodes)
            for name, way in WAYS.items():
                params = initial(way, data.num_edge_features, data.num_features, y.max() + 1)
                params, history = train(way, params, inputs, (nodes, y[nodes]), args.steps)
                predicted = np.asarray(logits(params, inputs).argmax(1))
                h = np.broadcast_to(conductance(params, arrays["edge_attr"]), start.shape)
                rows.append(
                    {
                        "way": name, "labels a class": each, "seed": seed,
                        "accuracy": (predicted == y)[unseen].mean(),
                        "loss": float(history[-1]),
                        "t": float(time(params)) if way.heats else 0.0,
                        "h within classes": h[start == end].mean(),
                        "h between classes": h[start != end].mean(),
                    }
                )  # fmt: skip
    return pd.DataFrame(rows)


def summarise(rows: pd.DataFrame) -> str:
    """Mean ± standard deviation over the seeds, as a table of Markdown."""
    groups = rows.drop(columns="seed").groupby(["labels a class", "way"], sort=False)
    mean, spread = groups.mean(), groups.std(ddof=0)
    columns = ["labels a class", "way", *mean.columns]
    lines = [f"| {' | '.join(columns)} |", "| --- " * len(columns) + "|"]
    for key in mean.index:
        pairs = zip(mean.loc[key], spread.loc[key], strict=True)
        cells = [*map(str, key), *(f"{m:.3f} ± {s:.3f}" for m, s in pairs)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    rows = compare(args, *load(args))
    args.output.mkdir(parents=True, exist_ok=True)
    rows.to_csv(args.output / "jax_conductance.csv", index=False)
    (args.output / "jax_conductance.md").write_text(summarise(rows))
    print(summarise(rows))
    return rows


if __name__ == "__main__":
    main()
