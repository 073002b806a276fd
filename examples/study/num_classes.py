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
| BERTopic | the package itself (`pip install bertopic`, and `--methods BERTopic`), all defaults, \
with the given features for embeddings and a seed for its UMAP |

Rows that num_classes.csv in --output has already are not run again, nor those of self-training with
the true number that runs.csv beside this file has. Labels are seen by the scores
alone. The table of README.md says on which sets the rule was chosen; it was run on the others once.
"""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd
import runner
import torch
from clusterers import resolution_one, umap
from data_sets import StudySet
from learned import self_training
from report import as_markdown, legend, panels, save_figure
from runner import SECONDS, Key, Row, Table
from torch import Tensor
from torch_geometric.data import Data

from jsem_pyg.evaluation import partition_scores
from jsem_pyg.training import choose_num_classes

FILE, CURVES = "num_classes.csv", "num_classes_curves.csv"
SCALES = (1.0, 2.0, 5.0, 10.0)
DEFAULT = 5.0  # of choose_num_classes
RUNS = Path(__file__).parent / "results/runs.csv"

Cluster = Callable[[Data, int, int], Tensor]


def chosen(data: Data, num_classes: int, seed: int) -> Tensor:
    """Nobody says how many."""
    return self_training(data, None, seed)


def umap_hdbscan(data: Data, num_classes: int, seed: int, epochs: int | None = None) -> Tensor:
    """What BERTopic clusters by; points that HDBSCAN leaves out share the label -1."""
    from sklearn.cluster import HDBSCAN

    embedding = umap(data, num_classes, seed, epochs)
    return torch.from_numpy(HDBSCAN(min_cluster_size=10, copy=True).fit_predict(embedding.numpy()))


def leiden(data: Data, num_classes: int, seed: int) -> Tensor:
    """As many communities as modularity likes."""
    return resolution_one(data, seed)


def bertopic(data: Data, num_classes: int, seed: int) -> Tensor:
    """The topics of BERTopic (Grootendorst 2022); -1 is its topic of outliers."""
    from bertopic import BERTopic
    from umap import UMAP

    # BERTopic's own UMAP but for the seed, which it leaves to chance.
    reduce = UMAP(15, n_components=5, min_dist=0.0, metric="cosine", random_state=seed, n_jobs=1)
    documents = [f"document {i}" for i in range(data.num_nodes)]
    threads = torch.get_num_threads()
    topics, _ = BERTopic(umap_model=reduce).fit_transform(documents, data.x.numpy())
    torch.set_num_threads(threads)  # as in `umap`
    return torch.tensor(topics)


CHOSEN, TRUE = "self-training, chosen", "self-training, true number"
UMAP, BERTOPIC = "UMAP + HDBSCAN", "BERTopic"
METHODS: dict[str, Cluster] = {
    CHOSEN: chosen,
    TRUE: self_training,
    UMAP: umap_hdbscan,
    "Leiden": leiden,
    BERTOPIC: bertopic,
}
DEFAULTS = [name for name in METHODS if name != BERTOPIC]  # whose package comes with no extra


def known_row(known: Path, key: Key, num_classes: int) -> Row | None:
    """What `run.py` has of self-training with the true number; None if it has not."""
    rows = runner.read(known)
    if key["method"] != TRUE or not len(rows):
        return None
    rows = rows[(rows["dataset"] == key["dataset"]) & (rows["method"] == "self-training")]
    for row in rows[rows["seed"] == key["seed"]].to_dict("records"):
        scores = {name: row[name] for name in ("ari", "nmi", "acc", SECONDS)}
        return {"classes": num_classes, "clusters": num_classes, "noise": 0.0} | scores
    return None


def run(cluster: Cluster, study_set: StudySet, seed: int) -> Row:
    """How many clusters a method finds, and how well they agree with the classes."""
    data = study_set.data.clone()
    found, seconds = runner.timed(lambda: cluster(data, study_set.num_classes, seed))
    row = {"classes": study_set.num_classes, "clusters": len(found[found >= 0].unique())}
    row |= {"noise": (found < 0).double().mean().item()}
    row |= partition_scores(found, study_set.y)._asdict()
    return row | {SECONDS: seconds}


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


def curve(study_set: StudySet, key: Key) -> list[Row]:
    """The score of every number at a scale: no labels, no training."""
    found, seconds = runner.timed(lambda: choose_num_classes(study_set.data, t=key["t"]))
    classes = {"classes": study_set.num_classes}
    # All rows of a curve are written at once.
    return [
        classes | {"clusters": clusters, "score": score, SECONDS: seconds}
        for clusters, score in found.curve.items()
    ]


def numbers_by_scale(curves: pd.DataFrame) -> pd.DataFrame:
    """The number with the highest score, a row for each data set, a column for each scale."""
    best = curves.loc[curves.groupby(["dataset", "t"], sort=False)["score"].idxmax()]
    table = best.pivot(index="dataset", columns="t", values="clusters").astype(int)
    table = table.reindex(curves["dataset"].unique()).rename(columns="t = {:g}".format)
    table.insert(0, "classes", curves.groupby("dataset")["classes"].first())
    return table.rename_axis("clusters, seed 0")


def draw(curves: pd.DataFrame) -> plt.Figure:
    """The curves that the numbers are read from, as shares of their best, with the true number."""
    figure, axes = panels(list(curves["dataset"].unique()), 4, 3.2)
    for name, axis in axes.items():
        part = curves[curves["dataset"] == name]
        for t, curve in part.groupby("t"):
            share = curve["score"] / curve["score"].max()
            axis.plot(curve["clusters"], share, lw=2 if t == DEFAULT else 1, label=f"t = {t:g}")
        axis.axvline(part["classes"].iloc[0], color="grey", ls="--", label="classes")
        axis.set(title=name, xlabel="clusters", ylabel="score / best", ylim=(0.6, 1.02))
    legend(figure, 5)
    return figure


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = runner.make_parser(__doc__, seeds=3)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=DEFAULTS)
    return runner.parse(parser, argv)


def plan(args: argparse.Namespace) -> list[Table]:
    methods = {name: METHODS[name] for name in args.methods}
    if args.quick and UMAP in methods:
        methods[UMAP] = partial(umap_hdbscan, epochs=20)

    def make(study_set: StudySet, key: Key) -> list[Row]:
        known = None if args.quick else known_row(RUNS, key, study_set.num_classes)
        return [known or run(methods[key["method"]], study_set, key["seed"])]

    wanted = runner.keys(dataset=args.sets, method=methods, seed=range(args.seeds))
    curves = runner.keys(dataset=args.sets, t=SCALES)
    return [Table(args.output / FILE, wanted, make), Table(args.output / CURVES, curves, curve)]


def report(args: argparse.Namespace) -> pd.DataFrame:
    """Write tables and curves from the rows, and return these."""
    runs, curves = runner.read(args.output / FILE), runner.read(args.output / CURVES)
    text = "# How many clusters\n\n![Score by the number of clusters](num_classes.png)\n\n"
    text += as_markdown(summarise(runs), "")
    text += f"\n\n{as_markdown(numbers_by_scale(curves), '')}"
    (args.output / "num_classes.md").write_text(f"{text}\n")
    save_figure(draw(curves), args.output / "num_classes.png")
    print(text)
    return runs


main = partial(runner.run, parse_args, plan, report)

if __name__ == "__main__":
    main()
