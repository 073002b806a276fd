"""Are the probabilities of a DiffusionClassifier what they say? Before and after a temperature.

    python examples/study/calibration.py --data FOLDER      # six data sets, two seeds
    python examples/study/calibration.py --quick            # some digits, seconds

A temperature T turns probabilities p into p^(1/T), normalised (Guo et al. 2017). Two settings:

- clusters: no labels. T makes the mean of the largest probability equal to the share of the nodes
  where the classifier, which sees a node's own features alone, and the diffused probabilities name
  the same cluster: two views that agree as often as each is right. For the scores alone, clusters
  are matched to classes by the labels.
- ten labels a class: eight teach, two are held out, and T has the highest likelihood of these.
  Scores are of the nodes without a label.

Brier score: the mean of the sum of squared differences, 0 to 2. ECE: the mean distance between
confidence and accuracy in fifteen bins of confidence.
"""

import argparse
from functools import partial
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd
import runner
import torch
import torch.nn.functional as F
from data_sets import StudySet
from few_labels import draw_labels
from learned import probabilities
from report import as_markdown, legend, panels, save_figure
from runner import SECONDS, Key, Row, Table
from scipy.optimize import brentq, linear_sum_assignment, minimize_scalar
from torch import Tensor

FILE = "calibration.csv"
BINS = 15
TEACH, HELD_OUT = 8, 2  # labels a class
COLDEST, HOTTEST = 0.02, 20.0
INTRODUCTION = """# What probabilities are worth

Brier score, calibration error, mean confidence and accuracy of a `DiffusionClassifier`, before and
after a temperature T. "clusters": without labels, T from the agreement of the classifier with the
graph. "labels": with ten a class, of which eight train the classifier and two choose T.

![Reliability curves of every data set, before and after the temperature](calibration.png)"""


class Prediction(NamedTuple):
    """Probabilities, and what they are compared with."""

    p: Tensor  # [M, C]
    y: Tensor  # [M]
    temperature: float


def warmed(p: Tensor, temperature: float) -> Tensor:
    """p^(1/T), with rows that sum to one."""
    return (p.double().clamp(min=1e-30).log() / temperature).softmax(-1)


def clusters(study_set: StudySet, seed: int) -> Prediction:
    """Without labels, but for the matching."""
    data, y = study_set.data, study_set.y
    p, model = probabilities(data, study_set.num_classes, seed)
    q = model.classify(data.x).detach()
    agreement = (q.argmax(-1) == p.argmax(-1)).double().mean().item()
    return Prediction(p[:, matching(p.argmax(-1), y)], y, by_confidence(p, agreement))


def ten_labels(study_set: StudySet, seed: int) -> Prediction:
    """Eight labels a class teach, two choose the temperature."""
    data, y = study_set.data, study_set.y
    known = draw_labels(y, TEACH + HELD_OUT, seed)
    teach = draw_labels(known.where(known >= 0, y.max() + 1), TEACH, seed)
    teach = teach.where(known >= 0, -1)
    p, _ = probabilities(data, study_set.num_classes, seed, labels=teach)
    held, rest = (known >= 0) & (teach < 0), known < 0
    return Prediction(p[rest], y[rest], by_likelihood(p[held], y[held]))


SETTINGS = {"clusters": clusters, "ten labels a class": ten_labels}


def matching(found: Tensor, y: Tensor) -> Tensor:
    """The cluster [C] that each class is matched to."""
    count = int(y.max()) + 1
    table = torch.zeros(count, count).index_put_((y, found), torch.ones(len(y)), accumulate=True)
    return torch.from_numpy(linear_sum_assignment(table, maximize=True)[1])


def by_confidence(p: Tensor, goal: float) -> float:
    """The temperature with a mean confidence of `goal`."""

    def excess(log_t: float) -> float:
        return warmed(p, 10**log_t).max(-1).values.mean().item() - goal

    low, high = torch.tensor([COLDEST, HOTTEST]).log10().tolist()
    if excess(low) < 0:
        return COLDEST
    return HOTTEST if excess(high) > 0 else 10 ** brentq(excess, low, high, xtol=1e-3)


def by_likelihood(p: Tensor, y: Tensor) -> float:
    """The temperature with the highest likelihood of labels."""

    def loss(log_t: float) -> float:
        likely = warmed(p, 10**log_t).gather(1, y[:, None])
        return -likely.clamp(min=1e-12).log().mean().item()

    bounds = torch.tensor([COLDEST, HOTTEST]).log10().tolist()
    return 10 ** minimize_scalar(loss, bounds=bounds, method="bounded").x


def reliability(p: Tensor, y: Tensor) -> pd.DataFrame:
    """Of each bin of confidence that is not empty: confidence, accuracy, share of the points."""
    confidence, found = p.max(-1)
    place = (confidence * BINS).long().clamp(max=BINS - 1)
    rows = pd.DataFrame({"confidence": confidence.numpy(), "right": (found == y).double().numpy()})
    bins = rows.groupby(place.numpy()).agg(
        confidence=("confidence", "mean"), accuracy=("right", "mean"), size=("right", "size")
    )
    return bins.assign(share=bins["size"] / len(y))


def scores(p: Tensor, y: Tensor) -> dict[str, float]:
    """Brier score, calibration error, mean confidence and accuracy."""
    bins = reliability(p, y)
    gap = (bins["confidence"] - bins["accuracy"]).abs()
    brier = (p - F.one_hot(y, p.size(1))).square().sum(-1).mean().item()
    found = {"brier": brier, "ece": float((gap * bins["share"]).sum())}
    confidence = p.max(-1).values.mean().item()
    accuracy = (p.argmax(-1) == y).double().mean().item()
    return found | {"confidence": confidence, "accuracy": accuracy}


def before_and_after(study_set: StudySet, key: Key) -> list[Row]:
    """Two rows, without a temperature and with it."""
    (p, y, temperature), seconds = runner.timed(
        lambda: SETTINGS[key["setting"]](study_set, key["seed"])
    )
    return [
        {"when": when, "temperature": t}
        | scores(warmed(p, t), y)
        | {"curve": as_text(reliability(warmed(p, t), y)), SECONDS: seconds}
        for when, t in (("before", 1.0), ("after", temperature))
    ]


def as_text(bins: pd.DataFrame) -> str:
    """Confidence, accuracy and share of each bin, in one cell of a CSV."""
    triples = bins[["confidence", "accuracy", "share"]].to_numpy()
    return ";".join(f"{a:.3f}:{b:.3f}:{c:.3f}" for a, b, c in triples)


def summarise(runs: pd.DataFrame) -> pd.DataFrame:
    """A row for each setting and data set: scores before -> after."""
    names = ["brier", "ece", "confidence", "accuracy", "temperature"]
    mean = runs.groupby(["setting", "dataset", "when"], sort=False)[names].mean().unstack("when")
    table = pd.DataFrame(
        {
            name: [
                f"{before:.3f} → {after:.3f}"
                for before, after in mean[name][["before", "after"]].to_numpy()
            ]
            for name in ("brier", "ece", "confidence")
        },
        index=pd.Index([f"{setting}, {name}" for setting, name in mean.index], name="scores"),
    )
    table["accuracy"] = mean["accuracy"]["before"].map("{:.3f}".format).to_numpy()
    table["T"] = mean["temperature"]["after"].map("{:.2f}".format).to_numpy()
    return table


def draw(runs: pd.DataFrame) -> plt.Figure:
    """Accuracy by confidence, a panel for each data set; the first seed."""
    figure, axes = panels(list(runs["dataset"].unique()), 3.6, 3.7)
    for name, axis in axes.items():
        axis.plot([0, 1], [0, 1], color="grey", lw=0.8)
        first = runs[(runs["dataset"] == name) & (runs["seed"] == runs["seed"].min())]
        for row in first.itertuples():
            x, y, _ = zip(*(map(float, b.split(":")) for b in row.curve.split(";")), strict=True)
            style = "o--" if row.when == "before" else "o-"
            colour = "C0" if row.setting == "clusters" else "C1"
            axis.plot(x, y, style, ms=3, color=colour, label=f"{row.setting}, {row.when}")
        axis.set(title=name, xlabel="confidence", ylabel="accuracy")
    legend(figure, 2)
    return figure


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    return runner.parse(runner.make_parser(__doc__, seeds=2), argv)


def plan(args: argparse.Namespace) -> list[Table]:
    wanted = runner.keys(dataset=args.sets, setting=SETTINGS, seed=range(args.seeds))
    return [Table(args.output / FILE, wanted, before_and_after)]


def report(args: argparse.Namespace) -> pd.DataFrame:
    """Write table and figure from the rows, and return these."""
    runs = runner.read(args.output / FILE)
    text = f"{INTRODUCTION}\n\n{as_markdown(summarise(runs), '')}"
    (args.output / "calibration.md").write_text(f"{text}\n")
    save_figure(draw(runs), args.output / "calibration.png")
    print(text)
    return runs


main = partial(runner.run, parse_args, plan, report)

if __name__ == "__main__":
    main()
