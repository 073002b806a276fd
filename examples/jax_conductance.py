"""A conductance trained in JAX: heat before a linear classifier, with a few labels of each class.

    python examples/jax_conductance.py                                 # digits, no file needed
    python examples/jax_conductance.py --embeddings embeddings.npz     # with x [N, D] and y [N]

Five ways, each trained by optax on the same labels: no heat, and heat for t = 5 or a learned time,
with every edge open or with edges that conduct as a logistic function of their geometry says
(curvature, overlap, contrast of degrees, rank, cosine after a short diffusion). The table has the
accuracy on all nodes without a label, which nothing else looks at. Needs the extra [jax] and optax.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pandas as pd
from helpers.points import load_points, parser_of
from study.edge_geometry import with_geometry
from torch_geometric.data import Data

from jsem_pyg.graph import GraphStructure
from jsem_pyg.jax import heat_diffusion
from jsem_pyg.transforms import FaissKNNGraph, FormanCurvature

LONGEST = 20.0  # the learned time stays below
LEAST = 0.01  # what a closed edge still conducts
FIXED = 5.0  # the time that is not learned, and where learning starts
WAYS = {  # which parameters learn, beside the classifier
    "no heat": None,
    "t = 5, every edge open": (),
    "t = 5, learned conductance": ("slope", "offset"),
    "learned t, every edge open": ("time",),
    "learned t and conductance": ("time", "slope", "offset"),
}


def conductance(params: dict[str, Any], edge_attr: jax.Array) -> jax.Array:
    """[E, F] -> [E], in (LEAST, 1)."""
    return LEAST + (1 - LEAST) * jax.nn.sigmoid(edge_attr @ params["slope"] + params["offset"])


def logits(params: dict[str, Any], inputs: dict[str, Any], learns: tuple | None) -> jax.Array:
    x, weight = inputs["x"], inputs["edge_weight"]
    if learns is not None:
        if "slope" in learns:
            weight = weight * conductance(params, inputs["edge_attr"])
        t = LONGEST * jax.nn.sigmoid(params["time"]) if "time" in learns else FIXED
        x = heat_diffusion(x, inputs["graph"], weight, t, tol=1e-5)
    x = x / jnp.linalg.norm(x, axis=1, keepdims=True)
    return 10 * x @ params["matrix"] + params["bias"]  # rows of length one need large weights


@partial(jax.jit, static_argnames=("learns", "steps"))
def train(params: Any, inputs: dict[str, Any], taught: Any, learns: Any, steps: int) -> Any:
    """Descend on the cross-entropy of the nodes `taught` = (nodes, classes)."""
    nodes, classes = taught
    optimizer = optax.adam(0.05)

    def loss(params: dict[str, Any]) -> jax.Array:
        chosen = logits(params, inputs, learns)[nodes]
        return optax.softmax_cross_entropy_with_integer_labels(chosen, classes).mean()

    def step(carry: Any, _: None) -> Any:
        params, state = carry
        update, state = optimizer.update(jax.grad(loss)(params), state, params)
        return (optax.apply_updates(params, update), state), None

    return jax.lax.scan(step, (params, optimizer.init(params)), length=steps)[0][0]


def main(argv: list[str] | None = None) -> pd.DataFrame:
    parser = parser_of(__doc__)
    parser.add_argument("--labels", type=int, nargs="+", default=[2, 5, 20], help="of each class")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--points", type=int, help="take only the first")
    parser.set_defaults(seeds=5)
    args = parser.parse_args(argv)
    x, y = (each[: args.points] for each in load_points(args.embeddings))
    data = with_geometry(FormanCurvature()(FaissKNNGraph(15)(Data(x=x))))
    names = ("x", "edge_weight", "edge_attr")
    inputs = {name: jnp.asarray(data[name].numpy()) for name in names}
    inputs["graph"] = GraphStructure(data.edge_index, data.num_nodes)
    y = y.numpy()
    is_within = np.equal(*y[data.edge_index.numpy()])
    params = {
        "matrix": jnp.zeros((x.size(1), y.max() + 1)),
        "bias": jnp.zeros(y.max() + 1),
        "time": jax.scipy.special.logit(FIXED / LONGEST),
        "slope": jnp.zeros(data.num_edge_features),
        "offset": jnp.array(3.0),  # nearly open edges
    }
    rows = []
    for each in args.labels:
        for seed in range(args.seeds):
            order = np.random.default_rng(seed).permutation(len(y))
            nodes = np.concatenate([order[y[order] == label][:each] for label in np.unique(y)])
            unseen = np.setdiff1d(np.arange(len(y)), nodes)
            for way, learns in WAYS.items():
                learned = train(params, inputs, (nodes, y[nodes]), learns, args.steps)
                right = np.asarray(logits(learned, inputs, learns).argmax(1)) == y
                row = {"way": way, "labels a class": each, "accuracy": right[unseen].mean()}
                if learns and "slope" in learns:
                    h = np.asarray(conductance(learned, inputs["edge_attr"]))
                    row |= {"h within classes": h[is_within].mean()}
                    row |= {"h between classes": h[~is_within].mean()}
                rows.append(row)
    table = pd.DataFrame(rows).groupby(["labels a class", "way"], sort=False).agg(["mean", "std"])
    print(table.round(3).to_string())
    return table


if __name__ == "__main__":
    main()
