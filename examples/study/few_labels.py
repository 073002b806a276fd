"""A few labels a class: who makes the most of them?

    python examples/study/few_labels.py --data FOLDER      # six data sets, five draws of the labels
    python examples/study/few_labels.py --quick            # some digits, seconds

Every method is a function (data, known, number of classes, seed) -> class of each node, where
`known` [N] is -1 but for one, five or ten nodes of each class, drawn with the seed; it is scored by
its accuracy on the nodes whose label was not given. Rows that few_labels.csv in --output has
already are not run again. Settings are published defaults, or were chosen on digits and AG News.
"""

import argparse
import logging
import time
from collections.abc import Callable
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd
import torch
import torch.nn.functional as F
from data_sets import DATA_SETS, StudySet, load
from filters import adjacency, heat
from learned import Open
from report import as_markdown
from runner import append, read
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.nn import APPNP, GCNConv

from jsem_pyg.evaluation import paired_comparisons
from jsem_pyg.nn import DiffusionClassifier
from jsem_pyg.training import self_train

log = logging.getLogger(__name__)
LABELS = [1, 5, 10]  # of each class
REFERENCE = "heat + logistic regression"

Predict = Callable[[Data, Tensor, int, int], Tensor]


def logistic_regression(data: Data, known: Tensor, num_classes: int, seed: int) -> Tensor:
    """On the features."""
    return _regress(data.x, known)


def heat_regression(data: Data, known: Tensor, num_classes: int, seed: int) -> Tensor:
    """On the features after isotropic heat; t by the unsupervised triplet loss."""
    return _regress(heat(data, num_classes, seed), known)


def label_spreading(data: Data, known: Tensor, num_classes: int, seed: int) -> Tensor:
    """Zhou et al. 2004 with alpha = 0.9, which is personalised PageRank of the labels."""
    labels = F.one_hot(known.clamp(min=0), num_classes) * (known >= 0)[:, None]
    spread = APPNP(K=50, alpha=0.1, add_self_loops=False)
    return spread(labels.float(), adjacency(data)).argmax(-1)


def gcn(data: Data, known: Tensor, num_classes: int, seed: int) -> Tensor:
    """Two layers as published (Kipf and Welling 2017), 200 epochs; there is no validation set."""
    seed_everything(seed)
    graph, train = adjacency(data), known >= 0
    first, last = GCNConv(data.x.size(1), 16), GCNConv(16, num_classes)
    optimizer = torch.optim.Adam(
        [{"params": first.parameters(), "weight_decay": 5e-4}, {"params": last.parameters()}],
        lr=0.01,
    )

    def logits(drop: bool) -> Tensor:
        h = first(F.dropout(data.x, 0.5, drop), graph).relu()
        return last(F.dropout(h, 0.5, drop), graph)

    for _ in range(200):
        optimizer.zero_grad()
        F.cross_entropy(logits(True)[train], known[train]).backward()
        optimizer.step()
    with torch.no_grad():
        return logits(False).argmax(-1)


def anisotropic(data: Data, known: Tensor, num_classes: int, seed: int) -> Tensor:
    """`fit` with sampler="labels"."""
    return _self_trained(data, known, num_classes, seed, None)


def isotropic(data: Data, known: Tensor, num_classes: int, seed: int) -> Tensor:
    """The same on edges that all conduct alike."""
    return _self_trained(data, known, num_classes, seed, Open())


def _self_trained(
    data: Data, known: Tensor, num_classes: int, seed: int, conductance: torch.nn.Module | None
) -> Tensor:
    model = DiffusionClassifier(data.x.size(1), num_classes, conductance=conductance)
    self_train(model, data, labels=known, seed=seed)
    with torch.no_grad():
        return model(data.x, data.edge_index, data.edge_weight).argmax(-1)


def _regress(x: Tensor, known: Tensor) -> Tensor:
    train = (known >= 0).numpy()
    model = LogisticRegression(C=10.0, max_iter=1000)  # rows of length one: less shrinkage
    model.fit(x.numpy()[train], known.numpy()[train])
    return torch.from_numpy(model.predict(x.numpy()))


METHODS: dict[str, Predict] = {
    "logistic regression": logistic_regression,
    REFERENCE: heat_regression,
    "label spreading": label_spreading,
    "GCN": gcn,
    "self-training, isotropic": isotropic,
    "self-training, anisotropic": anisotropic,
}


def draw_labels(y: Tensor, each: int, seed: int) -> Tensor:
    """The labels of `each` nodes of every class, -1 elsewhere."""
    generator = torch.Generator().manual_seed(seed)
    known = torch.full_like(y, -1)
    for label in y.unique():
        members = (y == label).nonzero().flatten()
        chosen = members[torch.randperm(len(members), generator=generator)[:each]]
        known[chosen] = label
    return known


def run_missing(path: Path, name: str, study_set: StudySet, seeds: range) -> None:
    """Run what the file lacks of a data set, and write each row as soon as it is there."""
    key = ["dataset", "labels", "method", "seed"]
    done = set(read(path).reindex(columns=key).itertuples(index=False, name=None))
    for each, (method, predict) in ((e, m) for e in LABELS for m in METHODS.items()):
        for seed in seeds:
            if (name, each, method, seed) in done:
                continue
            known = draw_labels(study_set.y, each, seed)
            start = time.process_time()
            found = predict(study_set.data.clone(), known, study_set.num_classes, seed)
            seconds = time.process_time() - start
            accuracy = float((found == study_set.y)[known < 0].float().mean())
            row = dict(zip(key, (name, each, method, seed), strict=True))
            append(path, row | {"accuracy": accuracy, "cpu_seconds": round(seconds, 3)})
            log.info("%s %.3f", row, accuracy)


def report(runs: pd.DataFrame, folder: Path) -> str:
    """Write the table with the tests, and the curves."""
    groups = runs.groupby(["dataset", "labels", "method"], sort=False)["accuracy"]
    cells = groups.agg(lambda part: f"{part.mean():.3f} ± {part.std(ddof=0):.3f}")
    table = cells.unstack("method").reindex(columns=list(METHODS))
    table.index = pd.Index([f"{name}, {each}" for name, each in table.index], name="labels a class")
    text = f"Accuracy on the nodes without a label\n\n{as_markdown(table, '')}\n"
    if runs["seed"].nunique() > 1:
        both = runs.assign(dataset=runs["dataset"] + ", " + runs["labels"].astype(str))
        tests = paired_comparisons(both, REFERENCE, score="accuracy")
        verdict = tests.pivot(index="dataset", columns="method", values="verdict")
        verdict = verdict.reindex(index=table.index).rename_axis("labels a class")
        verdict = verdict.reindex(columns=[name for name in METHODS if name != REFERENCE])
        text += f"\nAgainst {REFERENCE}: paired t-tests over the draws, Holm-corrected p < 0.05\n\n"
        text += f"{as_markdown(verdict, '')}\n"
    (folder / "few_labels.md").write_text(text)
    figure = draw(runs)
    figure.savefig(folder / "few_labels.png", dpi=150)
    plt.close(figure)
    return text


def draw(runs: pd.DataFrame) -> plt.Figure:
    names = runs["dataset"].unique()
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    size = (4 * columns, 3.2 * rows + 0.5)
    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    for axis in axes.flat[len(names) :]:
        axis.axis("off")
    for axis, name in zip(axes.flat, names, strict=False):
        for method in METHODS:
            part = runs[(runs["dataset"] == name) & (runs["method"] == method)]
            curve = part.groupby("labels")["accuracy"].agg(["mean", "std"]).fillna(0)
            axis.errorbar(curve.index, curve["mean"], curve["std"], marker=".", label=method)
        axis.set(title=name, xlabel="labels a class", ylabel="accuracy", xticks=LABELS)
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


def main(argv: list[str] | None = None) -> pd.DataFrame:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of the data; digits need none")
    parser.add_argument("--sets", nargs="+", choices=list(DATA_SETS), default=list(DATA_SETS))
    parser.add_argument("--seeds", type=int, default=5, help="seeds 0 .. n - 1")
    parser.add_argument("--output", type=Path, help="results/ beside this file, or output/study")
    parser.add_argument("--quick", action="store_true", help="a few digits")
    args = parser.parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    log.setLevel(logging.INFO)
    default = Path("output/study") if args.quick else Path(__file__).parent / "results"
    folder = args.output or default
    for name in ["digits"] if args.quick else args.sets:
        study_set = load(name, args.data, args.quick)
        run_missing(
            folder / "few_labels.csv", name, study_set, range(2 if args.quick else args.seeds)
        )
    runs = read(folder / "few_labels.csv")
    print(report(runs, folder))
    return runs


if __name__ == "__main__":
    main()
