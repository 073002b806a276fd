"""How many clusters are there? Our choice, and that of others who choose by themselves.

    python examples/study/num_classes.py --data FOLDER      # six data sets, three seeds
    python examples/study/num_classes.py --quick            # some digits, seconds

| method | settings |
| --- | --- |
| self-training, chosen | `fit` of `DiffusionClassifier(num_classes=None)`, all defaults |
| self-training, true number | the same, told how many classes there are; `run.py` has these rows |
| UMAP + HDBSCAN | what BERTopic does by default before it names topics: 5-d UMAP, 15 neighbours, \
cosine, min_dist 0; HDBSCAN with clusters of at least 10 points. Noise is a cluster of its own |
| Leiden | modularity at resolution 1 on the given graph |

Rows that num_classes.csv in --output has already are not run again, nor those of self-training with
the true number that runs.csv beside this file has. Labels are seen by the scores
alone. The rule was chosen on the development sets of README.md, and then run on the others once.
"""

import argparse
import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd
import torch
from clusterers import resolution_one, umap
from data_sets import DATA_SETS, StudySet, load
from learned import self_training
from report import as_markdown
from runner import append, finished, read
from torch import Tensor
from torch_geometric.data import Data

from jsem_pyg.evaluation import partition_scores
from jsem_pyg.nn import DiffusionClassifier
from jsem_pyg.training import choose_num_classes, fit

log = logging.getLogger(__name__)
SCALES = (1.0, 2.0, 5.0, 10.0)
DEFAULT = 5.0  # of choose_num_classes
RUNS = Path(__file__).parent / "results/runs.csv"

Cluster = Callable[[Data, int, int], Tensor]


def chosen(data: Data, num_classes: int, seed: int) -> Tensor:
    """Nobody says how many."""
    model = DiffusionClassifier(data.x.size(1))
    fit(model, data, seed=seed)
    with torch.no_grad():
        return model(data.x, data.edge_index, data.edge_weight).argmax(-1)


def true_number(data: Data, num_classes: int, seed: int) -> Tensor:
    """As many as there are classes."""
    return self_training(data, num_classes, seed)


def umap_hdbscan(data: Data, num_classes: int, seed: int, epochs: int | None = None) -> Tensor:
    """What BERTopic clusters by; points that HDBSCAN leaves out share the label -1."""
    from sklearn.cluster import HDBSCAN

    embedding = umap(data, num_classes, seed, epochs)
    return torch.from_numpy(HDBSCAN(min_cluster_size=10, copy=True).fit_predict(embedding.numpy()))


def leiden(data: Data, num_classes: int, seed: int) -> Tensor:
    """As many communities as modularity likes."""
    return resolution_one(data, seed)


CHOSEN, TRUE = "self-training, chosen", "self-training, true number"
UMAP = "UMAP + HDBSCAN"
METHODS: dict[str, Cluster] = {
    CHOSEN: chosen,
    TRUE: true_number,
    UMAP: umap_hdbscan,
    "Leiden": leiden,
}


def run_missing(
    path: Path, name: str, study_set: StudySet, methods: dict[str, Cluster], seeds: range
) -> None:
    """Run what the file lacks of a data set, and write each row as soon as it is there."""
    for method, cluster in methods.items():
        for seed in seeds:
            if (name, method, seed) in finished(path):
                continue
            row = {"dataset": name, "method": method, "seed": seed}
            append(path, row | run(cluster, study_set, seed))
            log.info("%s", row)


def copy_known(path: Path, known: Path, name: str, num_classes: int, seeds: range) -> None:
    """Take what `run.py` has of self-training with the true number."""
    rows = read(known)
    rows = rows[(rows["dataset"] == name) & (rows["method"] == "self-training")]
    for row in rows[rows["seed"].isin(seeds)].to_dict("records"):
        if (name, TRUE, row["seed"]) in finished(path):
            continue
        scores = {key: row[key] for key in ("seed", "ari", "nmi", "acc", "cpu_seconds")}
        sizes = {"classes": num_classes, "clusters": num_classes, "noise": 0.0}
        append(path, {"dataset": name, "method": TRUE, **sizes, **scores})


def run(cluster: Cluster, study_set: StudySet, seed: int) -> dict[str, float]:
    """How many clusters a method finds, and how well they agree with the classes."""
    start = time.process_time()
    found = cluster(study_set.data.clone(), study_set.num_classes, seed)
    seconds = time.process_time() - start
    row = {"classes": study_set.num_classes, "clusters": len(found[found >= 0].unique())}
    row |= {"noise": (found < 0).double().mean().item()}
    row |= partition_scores(found, study_set.y)._asdict()
    return row | {"cpu_seconds": round(seconds, 3)}


def summarise(runs: pd.DataFrame) -> pd.DataFrame:
    """A row for each data set: how many clusters, and the ARI, of each method."""
    columns = {}
    for method in runs["method"].unique():
        part = runs[runs["method"] == method].groupby("dataset", sort=False)
        columns[f"{method}: clusters"] = part["clusters"].agg(_range)
        columns[f"{method}: ARI"] = part["ari"].agg(
            lambda a: f"{a.mean():.3f} ± {a.std(ddof=0):.3f}"
        )
    table = pd.DataFrame(columns).reindex(runs["dataset"].unique())
    table.insert(0, "classes", runs.groupby("dataset")["classes"].first().astype(str))
    if {CHOSEN, TRUE} <= set(runs["method"]):
        mean = runs.pivot_table(index="dataset", columns="method", values="ari")
        table["chosen less true"] = (mean[CHOSEN] - mean[TRUE]).map("{:+.3f}".format)
    return table.rename_axis("ARI, mean over the seeds")


def _range(numbers: pd.Series) -> str:
    low, high = numbers.min(), numbers.max()
    return f"{low}" if low == high else f"{low} to {high}"


def run_curves(path: Path, name: str, study_set: StudySet) -> None:
    """The score of every number at every scale, if the file lacks them: no labels, no training."""
    for t in SCALES:
        if len(read(path)) and ((read(path)["dataset"] == name) & (read(path)["t"] == t)).any():
            continue
        found = choose_num_classes(study_set.data, t=t)
        for clusters, score in found.curve.items():
            row = {"dataset": name, "classes": study_set.num_classes, "t": t}
            append(path, row | {"clusters": clusters, "score": score})


def numbers_by_scale(curves: pd.DataFrame) -> pd.DataFrame:
    """The number with the highest score, a row for each data set, a column for each scale."""
    best = curves.loc[curves.groupby(["dataset", "t"], sort=False)["score"].idxmax()]
    table = best.pivot(index="dataset", columns="t", values="clusters").astype(int)
    table = table.reindex(curves["dataset"].unique()).rename(columns="t = {:g}".format)
    table.insert(0, "classes", curves.groupby("dataset")["classes"].first())
    return table.rename_axis("clusters, seed 0")


def draw(curves: pd.DataFrame) -> plt.Figure:
    """The curves that the numbers are read from, as shares of their best, with the true number."""
    names = curves["dataset"].unique()
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    size = (4 * columns, 3 * rows + 0.4)
    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    for axis in axes.flat[len(names) :]:
        axis.axis("off")
    for axis, name in zip(axes.flat, names, strict=False):
        part = curves[curves["dataset"] == name]
        for t, curve in part.groupby("t"):
            share = curve["score"] / curve["score"].max()
            axis.plot(curve["clusters"], share, lw=2 if t == DEFAULT else 1, label=f"t = {t:g}")
        axis.axvline(part["classes"].iloc[0], color="grey", ls="--", label="classes")
        axis.set(title=name, xlabel="clusters", ylabel="score / best", ylim=(0.6, 1.02))
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
    return figure


def main(argv: list[str] | None = None) -> pd.DataFrame:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of the data; digits need none")
    parser.add_argument("--sets", nargs="+", choices=list(DATA_SETS), default=list(DATA_SETS))
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=3, help="seeds 0 .. n - 1")
    parser.add_argument("--output", type=Path, help="results/ beside this file, or output/study")
    parser.add_argument("--quick", action="store_true", help="a few digits")
    args = parser.parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    log.setLevel(logging.INFO)
    default = Path("output/study") if args.quick else Path(__file__).parent / "results"
    folder = args.output or default
    path, seeds = folder / "num_classes.csv", range(2 if args.quick else args.seeds)
    methods = {name: METHODS[name] for name in args.methods}
    if args.quick and UMAP in methods:
        methods[UMAP] = partial(umap_hdbscan, epochs=20)
    curve_path = folder / "num_classes_curves.csv"
    for name in ["digits"] if args.quick else args.sets:
        study_set = load(name, args.data, args.quick)
        if not args.quick and TRUE in methods:
            copy_known(path, RUNS, name, study_set.num_classes, seeds)
        run_missing(path, name, study_set, methods, seeds)
        run_curves(curve_path, name, study_set)
    runs, curves = read(path), read(curve_path)
    text = as_markdown(summarise(runs), "")
    text += f"\n\n{as_markdown(numbers_by_scale(curves), '')}"
    (folder / "num_classes.md").write_text(f"{text}\n")
    figure = draw(curves)
    figure.savefig(folder / "num_classes.png", dpi=150)
    plt.close(figure)
    print(text)
    return runs


if __name__ == "__main__":
    main()
