"""A conductance trained in JAX: heat before a linear classifier, with a few labels of each class.

    python examples/jax_conductance.py                                 # digits, no file needed
    python examples/jax_conductance.py --embeddings embeddings.npz     # with x [N, D] and y [N]

Four ways, each trained by optax on the same labels: no heat; heat for a learned time with every
edge open; heat whose edges conduct as a logistic function of their geometry says (curvature,
overlap, contrast of degrees, rank, cosine after a short diffusion); and the same of curvature
alone. The table has the accuracy on all nodes without a label, which nothing else looks at. Needs
the extra [jax], and optax.
"""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pandas as pd
import torch
from sklearn.datasets import load_digits
from sklearn.preprocessing import Normalizer
from torch_geometric.data import Data

from jsem_pyg.diffusion import heat_degree
from jsem_pyg.jax import Graph, heat_diffusion, prepare_graph
from jsem_pyg.transforms import EdgeGeometry, FaissKNNGraph, FormanCurvature

LONGEST = 20.0  # the learned time stays below, and the number of terms is enough for it
DEGREE = heat_degree(LONGEST, 1e-8)
LEAST = 0.01  # what a closed edge still conducts

WAYS = ["no heat", "heat, every edge open", "heat, learned conductance", "the same, of curvature"]


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--embeddings", type=Path, help=".npz file of points x [N, D], labels y")
    parser.add_argument("--points", type=int, help="take only so many, at random")
    parser.add_argument("--k", type=int, default=15, help="neighbours of a point")
    parser.add_argument("--labels", type=int, nargs="+", default=[2, 5, 20], help="of each class")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200)
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
    for transform in (FaissKNNGraph(args.k), FormanCurvature(), EdgeGeometry()):
        data = transform(data)
    return data, np.unique(y, return_inverse=True)[1]


def initial(way: str, num_features: int, channels: int, num_classes: int) -> dict[str, Any]:
    """Parameters: nearly open edges, t = 5, and a classifier that knows nothing."""
    params = {"matrix": jnp.zeros((channels, num_classes)), "bias": jnp.zeros(num_classes)}
    if way != "no heat":
        params["time"] = jax.scipy.special.logit(5.0 / LONGEST)
    if way in WAYS[2:]:
        count = 1 if way == WAYS[3] else num_features
        params["slope"], params["offset"] = jnp.zeros(count), jnp.array(3.0)
    return params


def conductance(params: dict[str, Any], edge_attr: jax.Array) -> jax.Array | float:
    """[E, F] -> [E], in (LEAST, 1)."""
    if "slope" not in params:
        return 1.0
    columns = edge_attr[:, : params["slope"].size]  # curvature comes first
    return LEAST + (1 - LEAST) * jax.nn.sigmoid(columns @ params["slope"] + params["offset"])


def logits(params: dict[str, Any], inputs: dict[str, Any]) -> jax.Array:
    x = inputs["x"]
    if "time" in params:
        weight = inputs["edge_weight"] * conductance(params, inputs["edge_attr"])
        t = LONGEST * jax.nn.sigmoid(params["time"])
        x = heat_diffusion(x, inputs["graph"], weight, t, degree=DEGREE)
    x = x / jnp.linalg.norm(x, axis=1, keepdims=True)
    return 10 * x @ params["matrix"] + params["bias"]  # rows of length one need large weights


@partial(jax.jit, static_argnames="steps")
def train(params: dict[str, Any], inputs: dict[str, Any], taught: Any, steps: int) -> Any:
    """Descend on the cross-entropy of the nodes `taught` = (nodes, classes)."""
    nodes, classes = taught
    optimizer = optax.adamw(0.05, weight_decay=1e-3)

    def loss(params: dict[str, Any]) -> jax.Array:
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
    graph: Graph = prepare_graph(data.edge_index, data.num_nodes)
    arrays = {name: jnp.asarray(data[name].numpy()) for name in ("x", "edge_weight", "edge_attr")}
    inputs, rows = {"graph": graph, **arrays}, []
    start, end = y[data.edge_index.numpy()]
    for each in args.labels:
        for seed in range(args.seeds):
            nodes = few(y, each, seed)
            unseen = np.setdiff1d(np.arange(len(y)), nodes)
            for way in WAYS:
                params = initial(way, data.num_edge_features, data.num_features, y.max() + 1)
                params, history = train(params, inputs, (nodes, y[nodes]), args.steps)
                predicted = np.asarray(logits(params, inputs).argmax(1))
                h = np.broadcast_to(conductance(params, arrays["edge_attr"]), start.shape)
                rows.append(
                    {
                        "way": way, "labels a class": each, "seed": seed,
                        "accuracy": (predicted == y)[unseen].mean(),
                        "loss": float(history[-1]),
                        "t": LONGEST * float(jax.nn.sigmoid(params.get("time", -jnp.inf))),
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
