"""A few labels a class: who makes the most of them?

    python examples/study/few_labels.py --data FOLDER      # six data sets, five draws of the labels
    python examples/study/few_labels.py --quick            # some digits, seconds

Every method is a function (data, known, number of classes, seed) -> class of each node, where
`known` [N] is -1 but for one, five or ten nodes of each class, drawn with the seed; it is scored by
its accuracy and macro F1 on the nodes whose label was not given. There is no validation set. Rows
that few_labels.csv in --output has already are not run again. Settings are published ones, or were
chosen on digits and AG News, the development sets, with other draws (seeds from 100 on):

| method | settings |
| --- | --- |
| logistic regression | C = 100: of 1, 10 and 100 best after heat on the development sets |
| heat + logistic regression | t of 0.5 ... 20 by the triplet loss on the graph, then the same |
| label spreading | alpha 0.9 (Zhou et al. 2004), 50 steps |
| GCN | 64 hidden channels, otherwise Kipf and Welling 2017; the last of 200 epochs |
| triplets + logistic regression | five features of an edge, `fit`'s defaults, t from heat's |
| self-training | `fit`'s defaults: development sets, and texts that are not reported |

README.md has the table of what was chosen on what.
"""

import argparse
from functools import partial
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd
import runner
import torch
from comparison import paired_comparisons
from data_sets import StudySet
from few_label_methods import ABLATION, METHODS, OURS, REFERENCE, TRIPLETS, Predict
from report import as_markdown, legend, panels, save_figure
from runner import SECONDS, Key, Row, Table
from sklearn.metrics import f1_score
from torch import Tensor

FILE = "few_labels.csv"
LABELS = [1, 5, 10]  # of each class
BEST = "the best rival"
RIVALS = ["logistic regression", REFERENCE, "label spreading", "GCN"]
TEN_DRAWS = [REFERENCE, ABLATION, OURS]  # five of the others


def draw_labels(y: Tensor, each: int, seed: int) -> Tensor:
    """The labels of `each` nodes of every class, -1 elsewhere."""
    generator = torch.Generator().manual_seed(seed)
    known = torch.full_like(y, -1)
    for label in y.unique():
        members = (y == label).nonzero().flatten()
        chosen = members[torch.randperm(len(members), generator=generator)[:each]]
        known[chosen] = label
    return known


def run(predict: Predict, study_set: StudySet, each: int, seed: int) -> Row:
    """Score a method on the nodes whose label it was not given."""
    data, known = study_set.data.clone(), draw_labels(study_set.y, each, seed)
    rest = known < 0
    found, seconds = runner.timed(lambda: predict(data, known.clone(), study_set.num_classes, seed))
    y, found = study_set.y[rest], found[rest]
    macro_f1 = f1_score(y, found, average="macro")
    accuracy = (found == y).float().mean().item()
    return {"accuracy": accuracy, "macro_f1": macro_f1, SECONDS: seconds}


def compare(runs: pd.DataFrame) -> pd.DataFrame:
    """Ours against isotropic heat, the best rival and its ablation: paired t-tests on the accuracy.

    The best rival is that of the highest mean in each cell, which favours it. Holm's correction is
    over the cells, of one comparison. What was not run is left out.
    """
    cells = with_cells(runs)
    rivals = cells[cells["method"].isin(RIVALS)]
    mean = rivals.groupby(["dataset", "method"])["accuracy"].mean()
    best = rivals.set_index(["dataset", "method"]).loc[list(mean.groupby("dataset").idxmax())]
    cells = pd.concat([cells, best.reset_index().assign(method=BEST)])
    tables = []
    for reference in (REFERENCE, BEST, ABLATION):
        pair = cells[cells["method"].isin([OURS, reference])]
        if pair["method"].nunique() == 2:
            tests = paired_comparisons(pair, reference, score="accuracy")
            tables.append(tests.assign(reference=reference))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def write_report(runs: pd.DataFrame, folder: Path) -> str:
    """Write the table with the tests, and the curves."""
    text = "# A few labels\n\n![Accuracy by the number of labels a class](few_labels.png)\n\n"
    text += "Mean and standard deviation over the draws; scores are of the nodes without a label.\n"
    for score, title in {"accuracy": "Accuracy", "macro_f1": "Macro F1"}.items():
        text += f"\n## {title}\n\n{as_markdown(mean_and_spread(runs, score, list(METHODS)), '')}\n"
    tests = compare(runs) if runs["seed"].nunique() > 1 else pd.DataFrame()
    if len(tests):
        text += f"\n## Accuracy of {OURS}, less that of others\n\n"
        text += "Paired t-tests over the draws; p after Holm's correction within a column.\n\n"
        text += f"{as_markdown(differences(tests), '')}\n"
    (folder / "few_labels.md").write_text(text)
    save_figure(draw(runs), folder / "few_labels.png")
    return text


def with_cells(runs: pd.DataFrame) -> pd.DataFrame:
    """Each number of labels as a data set of its own."""
    return runs.assign(dataset=runs["dataset"] + ", " + runs["labels"].astype(str))


def mean_and_spread(runs: pd.DataFrame, score: str, methods: list[str]) -> pd.DataFrame:
    """A row for each data set and number of labels, a column for each method."""
    groups = runs.groupby(["dataset", "labels", "method"], sort=False)[score]
    cells = groups.agg(lambda part: f"{part.mean():.3f} ± {part.std(ddof=0):.3f}")
    table = cells.unstack("method").reindex(columns=methods)
    table.index = pd.Index([f"{name}, {each}" for name, each in table.index], name="labels a class")
    return table


def differences(tests: pd.DataFrame) -> pd.DataFrame:
    """Mean differences and p, in the order of the runs."""
    cells = [f"{row.difference:+.3f} (p = {row.p_holm:.2g})" for row in tests.itertuples()]
    table = tests.assign(cell=cells).pivot(index="dataset", columns="reference", values="cell")
    columns, index = tests["reference"].unique(), tests["dataset"].unique()
    return table.loc[index, columns].rename_axis("labels a class")


def draw(runs: pd.DataFrame) -> plt.Figure:
    figure, axes = panels(list(runs["dataset"].unique()), 4, 3.5)
    for name, axis in axes.items():
        for method in METHODS:
            part = runs[(runs["dataset"] == name) & (runs["method"] == method)]
            curve = part.groupby("labels")["accuracy"].agg(["mean", "std"]).fillna(0)
            width = 2.5 if method == OURS else 1.2
            style = {"lw": width, "elinewidth": 0.8, "label": method}
            axis.errorbar(curve.index, curve["mean"], curve["std"], **style)
        axis.set(title=name, xlabel="labels a class", ylabel="accuracy", xticks=LABELS)
    legend(figure, 3)
    return figure


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = runner.make_parser(__doc__, seeds=None)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    return runner.parse(parser, argv)


def plan(args: argparse.Namespace) -> list[Table]:
    def make(study_set: StudySet, key: Key) -> list[Row]:
        return [run(METHODS[key["method"]], study_set, key["labels"], key["seed"])]

    seeds = range(args.seeds or 10)
    wanted = runner.keys(dataset=args.sets, labels=LABELS, method=args.methods, seed=seeds)
    wanted = [key for key in wanted if key["labels"] > 1 or key["method"] != TRIPLETS]
    if args.seeds is None:
        wanted = [key for key in wanted if key["seed"] < 5 or key["method"] in TEN_DRAWS]
    return [Table(args.output / FILE, wanted, make)]


def report(args: argparse.Namespace) -> pd.DataFrame:
    """Write tables, tests and curves from the rows, and return these."""
    runs = runner.read(args.output / FILE)
    print(write_report(runs, args.output))
    return runs


main = partial(runner.run, parse_args, plan, report)

if __name__ == "__main__":
    main()
