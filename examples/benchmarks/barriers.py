"""Does kriging find barriers? A river between sensors, the horseshoe of mgcv, and `meuse`.

A field jumps across a river, and the edges of a network say if they cross water. Interpolated by
`jsem_pyg.training.interpolate`, on edges that conduct alike, that learn how well they conduct or
that are cut by hand, and by what one would take otherwise. Errors are those of the hidden truth,
intervals too.

    python examples/benchmarks/barriers.py --only river none --draws 1  # a minute
    python examples/benchmarks/barriers.py                              # all, half an hour
    python examples/benchmarks/barriers.py --only meuse                 # needs scikit-gstat

Ordinary kriging needs PyKrige. Writes barriers_runs.csv, a row a draw and method (what it has is
not run again), barriers.md and barriers.png into --output.
"""

import math
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from helpers.rivers import JUMPS, Case, between, graph_of, horseshoe, lengths, network, plant
from matplotlib.tri import Triangulation
from reporting import Rows, machine, markdown, parser_of, spread
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.neighbors import KNeighborsRegressor
from torch_geometric.data import Data

from jsem_pyg.nn import SigmoidConductance
from jsem_pyg.training import interpolate

# Values and the first draw: at 300, draws 0 to 4 have chosen to how many values kernels are fitted.
HORSESHOES = {"horseshoe, 300": (300, 5), "horseshoe, 600": (600, 0)}
Guess = tuple[np.ndarray, np.ndarray, float]  # mean and deviation of the signal [N], noise


def kriging(case: Case, conductance: SigmoidConductance | None = None, **options: object) -> Guess:
    """Interpolate on the network."""
    given = torch.from_numpy(case.values), torch.from_numpy(case.observed)
    found = interpolate(case.graph, *given, conductance=conductance, **options)
    return found.mean.numpy(), found.deviation.numpy(), float(found.noise)


def learned(case: Case, **options: object) -> Guess:
    """Interpolate on the network, whose edges learn how well they conduct."""
    return kriging(case, SigmoidConductance(1), **options)


def cut(case: Case, **options: object) -> Guess:
    """Interpolate on the network without the marked edges."""
    keep, graph = case.graph.edge_attr[:, 0] == 0, case.graph
    once = Data(
        edge_index=graph.edge_index[:, keep],
        edge_weight=graph.edge_weight[keep],
        num_nodes=graph.num_nodes,
    )
    return kriging(case._replace(graph=once), **options)


def on_the_map(case: Case) -> Guess:
    """Interpolate in the plane, by the most likely of scikit-learn's kernels."""
    models = [
        GaussianProcessRegressor(
            ConstantKernel() * kernel + WhiteKernel(0.05),
            normalize_y=True,
            n_restarts_optimizer=2,
            random_state=0,
        ).fit(case.pos[case.observed], case.values)
        for kernel in (RBF(0.2), *(Matern(0.2, nu=nu) for nu in (0.5, 1.5, 2.5)))
    ]
    best = max(models, key=lambda model: model.log_marginal_likelihood_value_)
    mean, deviation = best.predict(case.pos, return_std=True)
    noise = best.kernel_.k2.noise_level * case.values.var()
    return mean, np.sqrt(np.maximum(deviation**2 - noise, 0)), math.sqrt(noise)


def ordinary(case: Case) -> Guess:
    """Interpolate in the plane, by ordinary kriging with a spherical variogram."""
    from pykrige.ok import OrdinaryKriging

    model = OrdinaryKriging(
        *case.pos[case.observed].T, case.values, variogram_model="spherical", exact_values=False
    )
    mean, variance = model.execute("points", *case.pos.T)
    nugget = model.variogram_model_parameters[-1]
    left = np.maximum(np.asarray(variance) - nugget, 0)
    return np.asarray(mean), np.sqrt(left), math.sqrt(nugget)


def nearest(case: Case) -> Guess:
    """Average the five nearest values."""
    model = KNeighborsRegressor(5).fit(case.pos[case.observed], case.values)
    return model.predict(case.pos), np.full(len(case.pos), np.nan), 0.0


SPARSE, FINE = "the places alone", "with places between"
TURNED = "with places between, directions learned"
ALIKE, LEARNED, CUT = "every edge alike", "learned conductance", "edges cut by hand"
METHODS: dict[str, Callable[..., Guess]] = {
    ALIKE: kriging,
    LEARNED: learned,
    CUT: cut,
    "Gaussian process on coordinates": on_the_map,
    "ordinary kriging": ordinary,
    "five nearest": nearest,
}


def score(case: Case, guess: Guess, draw: int, measured: bool) -> dict[str, float]:
    """Compare with the hidden truth, or with what would be measured there."""
    mean, deviation, noise = guess
    truth = case.truth
    if measured:
        truth = truth + 0.1 * np.random.default_rng((draw, 1)).normal(size=len(truth))
        deviation = np.hypot(deviation, noise)
    hidden = np.ones(len(truth), dtype=bool)
    hidden[case.observed] = False
    error = mean - truth
    inside = np.where(np.isnan(deviation), np.nan, abs(error) < 1.96 * deviation)
    shore = np.zeros(len(truth), dtype=bool)
    shore[case.graph.edge_index[0][case.graph.edge_attr[:, 0] > 0].numpy()] = True
    sides = [inside[hidden & (case.side == each)].mean() for each in np.unique(case.side)]
    return {
        "RMSE": math.sqrt(np.square(error[hidden]).mean()),
        "inside": inside[hidden].mean(),
        "worse side": min(sides),
        "at the shore": inside[hidden & shore].mean(),
    }


def meuse() -> Iterator[tuple[str, dict[str, float]]]:
    """Leave out each value of zinc (its logarithm), on two networks and with learned directions.

    Directions of edges are an angle of twice their own. What conducts is learned once, from all
    values, as a variogram would be.
    """
    import skgstat

    table = pd.read_csv(Path(skgstat.__file__).parent / "data/samples/meuse.txt")
    pos, zinc = table[["x", "y"]].to_numpy(float), np.log(table["zinc"].to_numpy(float))
    size, graphs = len(zinc), {}
    for name, places in ((SPARSE, pos), (FINE, np.concatenate([pos, between(pos)]))):
        once = network(places)
        if name == FINE:  # without the long edges around
            once = once[:, lengths(places, once) < 4 * np.median(lengths(places, once))]
        angle = 2 * np.arctan2(*(places[once[1]] - places[once[0]]).T)
        attr = np.stack([np.sin(angle), np.cos(angle)], 1)
        weight = lengths(places, once).mean() / lengths(places, once)
        graphs[name] = graph_of(once, weight, attr, len(places))
    graphs[TURNED] = graphs[FINE].clone()
    options, h = {"normalization": None}, SigmoidConductance(2)  # D - W, that of meshes
    found = interpolate(graphs[FINE], zinc, range(size), conductance=h, **options)
    graphs[TURNED].edge_weight *= found.conductance
    for name, graph in graphs.items():
        began, errors = time.process_time(), []
        for i in range(size):
            others = np.delete(np.arange(size), i)
            left = interpolate(graph, zinc[others], others, **options)
            deviation = math.hypot(float(left.deviation[i]), float(left.noise))
            errors.append((float(left.mean[i]) - zinc[i], deviation))
        error, deviation = np.array(errors).T
        z = error / deviation
        yield (
            name,
            {
                "RMSE": math.sqrt(np.square(error).mean()),
                "inside": (abs(z) < 1.96).mean(),
                "z squared": np.square(z).mean(),
                "log score": (-0.5 * (z**2 + np.log(2 * np.pi * deviation**2))).mean(),
                "CPU s": (time.process_time() - began) / size,
            },
        )


def picture(case: Case, path: Path) -> None:
    """Draw the truth, and what is interpolated on edges that are alike, and that learned."""
    net = Triangulation(*case.pos.T)
    panels = {"truth": case.truth, ALIKE: kriging(case)[0], LEARNED: learned(case)[0]}
    figure, axes = plt.subplots(1, 3, figsize=(10, 3.5), layout="constrained", sharey=True)
    limit = {"vmin": case.truth.min(), "vmax": case.truth.max()}
    for ax, (name, field) in zip(axes, panels.items(), strict=True):
        drawn = ax.tripcolor(net, field, shading="gouraud", cmap="viridis", **limit)
        for shore in case.shores:
            ax.plot(*shore.T, color="white", linewidth=2)
        ax.set(title=name, aspect="equal", xticks=[], yticks=[])
    axes[0].scatter(*case.pos[case.observed].T, s=6, color="black")
    figure.colorbar(drawn, ax=axes, shrink=0.8)
    figure.savefig(path, dpi=90)
    plt.close(figure)


def main(argv: list[str] | None = None) -> pd.DataFrame:
    parser = parser_of(__doc__)
    families = [*JUMPS, *HORSESHOES, "meuse"]
    parser.add_argument("--only", nargs="+", choices=families, default=families)
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--nodes", type=int, default=600, help="of a network with rivers")
    args = parser.parse_args(argv)
    rows = Rows(args.output / "barriers_runs.csv", "family", "draw", "method")
    methods = dict(METHODS)
    if find_spec("pykrige") is None:
        del methods["ordinary kriging"]
        print("No ordinary kriging: pip install pykrige")
    for family in args.only:
        if family == "meuse":
            if find_spec("skgstat") is None:
                print("No meuse: pip install scikit-gstat, which has the table")
            elif not any(row["family"] == family for row in rows.rows):
                for name, found in meuse():
                    rows.add({"family": family, "draw": 0, "method": name} | found)
            continue
        shoe, options = family in HORSESHOES, {}
        count, first = HORSESHOES.get(family, (0, 0))
        if shoe:  # kernels and conductance are fitted to a third of the values
            options = {"normalization": None, "max_fitted": count // 3}
        for draw in range(first, first + args.draws):
            case = horseshoe(count, draw) if shoe else plant(family, draw, args.nodes)
            for name in (LEARNED, CUT) if shoe else methods:
                if not rows.has(family, draw, name):
                    began = time.process_time()
                    guess = methods[name](case, **options)
                    taken = {"CPU s": time.process_time() - began}
                    key = {"family": family, "draw": draw, "method": name}
                    rows.add(key | score(case, guess, draw, shoe) | taken)
    runs = rows.table()
    table = runs.groupby(["family", "method"], sort=False)[list(runs.columns[3:])]
    table = table.agg(spread).replace("nan ± nan", "")
    table.insert(0, "draws", runs.groupby(["family", "method"], sort=False).size())
    table = table.reset_index()
    text = f"# Barriers\n\n{machine()}.\n\n{markdown(table)}"
    (args.output / "barriers.md").write_text(text)
    print(text)
    if "river" in args.only:
        picture(plant("river", 0, args.nodes), args.output / "barriers.png")
    return table


if __name__ == "__main__":
    main()
