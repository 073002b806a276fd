"""Two views of the same things: does it pay if edges, or the classifier, see another view?

    python examples/study/two_views.py --data FOLDER       # seven graphs, three seeds
    python examples/study/two_views.py --quick             # some digits, seconds

One view makes the graph; the other one does not know of it.

| data | the graph's view | the other view |
| --- | --- | --- |
| digits | the 15-NN graph of the upper half of the image | the lower half |
| agnews, 20newsgroups | the 15-NN graph of the sentence embeddings | words |
| cora, citeseer | citations, of which a classifier reads the diffused noise | words |
| cora words, citeseer words | the 15-NN graph of the words | citations |

Words are TF-IDF by scikit-learn (English stop words left out, words of one text too, logarithms of
counts), on 300 axes of `TruncatedSVD`. A classifier reads citations as random signals that have
diffused along them (t = 5, 300 signals): their cosines are those of the heat kernel's rows.

Self-training as in `learned.py`, without labels, told the number of classes. What varies is what
the classifier reads, the graph's view, the other one or both, and what the edges conduct by:

| edges | |
| --- | --- |
| every edge open | no conductance |
| agreement | of the classifier's own diffused probabilities, which is the default |
| the other view | weights times 0.01 + 0.99 sigmoid(2 c), c the cosine of both ends in the other \
view, standardised over the edges |
| graph of both views | every edge open in the 15-NN graph of both views, rows side by side |

Digits and AG News are development sets: on them this conductance was chosen among ranks of the
cosine with floors of 0.1 and 0.01, the cosine itself, slopes of 1 and 2, and the agreement of a
classifier that had been trained on the other view. All else is as it was first written down.
"""

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import data_sets
import pandas as pd
import runner
import torch
import torch.nn.functional as F
from comparison import holm_correction, paired_comparisons
from learned import isotropic_self_training, self_training
from report import as_markdown
from runner import SECONDS, Key, Row, Table
from torch import Tensor
from torch_geometric.data import Data

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.evaluation import partition_scores
from jsem_pyg.transforms import FaissKNNGraph

FILE = "two_views.csv"
AXES = 300
HEAT = 5.0  # of the signals that stand for citations
FLOOR, SLOPE = 0.01, 2.0


class TwoViews(NamedTuple):
    """A graph, two views of its nodes, and what is kept from the methods."""

    edge_index: Tensor
    edge_weight: Tensor
    views: dict[str, Tensor]  # [N, D] each, rows of length one
    y: Tensor  # [N]; for the scores only
    num_classes: int


READS = ["the graph's view", "the other view", "both views"]
EDGES = ["every edge open", "agreement", "the other view", "graph of both views"]
OWN, SECOND, BOTH = READS
OPEN, AGREEMENT, OTHER, JOINT = EDGES
VARIANTS = [  # what the classifier reads, what edges conduct by
    (OWN, OPEN),
    (OWN, AGREEMENT),
    (OWN, OTHER),
    (SECOND, OPEN),
    (SECOND, AGREEMENT),
    (SECOND, OTHER),
    (BOTH, OPEN),
    (BOTH, OTHER),
    (BOTH, JOINT),
]


def load(name: str, folder: Path | None, quick: bool = False) -> TwoViews:
    """One of `SETS`."""
    return SETS[name](folder, quick)


def _digits(folder: Path | None, quick: bool) -> TwoViews:
    known = data_sets.load("digits", folder, quick)
    upper, lower = known.data.x.chunk(2, dim=1)
    return of_points(upper, lower, known.y)


def _news(folder: Path | None, quick: bool) -> TwoViews:
    known = data_sets.load("agnews", folder)
    texts = pd.read_csv(folder / "agnews8k.csv.gz").fillna("")  # without a description
    words = of_words(texts["title"] + " " + texts["description"])
    return of_points(known.data.x, words, known.y)


def _posts(folder: Path | None, quick: bool) -> TwoViews:
    from sklearn.datasets import fetch_20newsgroups

    known = data_sets.load("20newsgroups", folder)
    posts = fetch_20newsgroups(
        data_home=str(folder / "scikit_learn_data"),
        remove=("headers", "footers", "quotes"),
        download_if_missing=False,
    )
    if posts.target.tolist() != known.y.tolist():
        raise SystemExit("Expected the posts in the order of their embeddings.")
    return of_points(known.data.x, of_words(posts.data), known.y)


def _papers(name: str, graph_of_words: bool) -> Callable[[Path | None, bool], TwoViews]:
    def read(folder: Path | None, quick: bool) -> TwoViews:
        from sklearn.feature_extraction.text import TfidfTransformer

        known = data_sets.load(name, folder)
        words = on_axes(TfidfTransformer().fit_transform((known.data.x > 0).numpy()))
        citations = of_edges(known.data)
        if graph_of_words:
            return of_points(words, citations, known.y)
        views = dict(zip((OWN, SECOND), (citations, words), strict=True))
        return TwoViews(
            known.data.edge_index, known.data.edge_weight, views, known.y, known.num_classes
        )

    return read


SETS: dict[str, Callable[[Path | None, bool], TwoViews]] = {
    "digits": _digits,
    "agnews": _news,
    "20newsgroups": _posts,
    "cora": _papers("cora", False),
    "cora words": _papers("cora", True),
    "citeseer": _papers("citeseer", False),
    "citeseer words": _papers("citeseer", True),
}


def of_points(own: Tensor, other: Tensor, y: Tensor) -> TwoViews:
    """The nearest neighbours of one view are the graph."""
    own, other = F.normalize(own), F.normalize(other)
    graph = neighbours(own)
    views = dict(zip((OWN, SECOND), (own, other), strict=True))
    return TwoViews(graph.edge_index, graph.edge_weight, views, y, len(y.unique()))


def neighbours(x: Tensor) -> Data:
    """The k-NN graph of rows; a row of zeros lies where all are on average."""
    has_direction = (x != 0).any(1, keepdim=True)
    return FaissKNNGraph(data_sets.NEIGHBOURS)(Data(x=x.where(has_direction, x.mean(0))))


def of_words(texts: list[str]) -> Tensor:
    """Texts as rows of length one; one without words has a row of zeros."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    return on_axes(
        TfidfVectorizer(stop_words="english", sublinear_tf=True, min_df=2).fit_transform(texts)
    )


def on_axes(table) -> Tensor:
    """The coordinates of a sparse table's rows on its first singular vectors."""
    from sklearn.decomposition import TruncatedSVD

    coordinates = TruncatedSVD(AXES, random_state=0).fit_transform(table)
    return F.normalize(torch.from_numpy(coordinates).float())


def of_edges(data: Data) -> Tensor:
    """Which nodes are near along the edges, as features that know nothing else."""
    noise = torch.randn(data.num_nodes, AXES, generator=torch.Generator().manual_seed(0))
    return F.normalize(heat_diffusion(noise, data.edge_index, data.edge_weight, HEAT))


def read_by(given: TwoViews, reads: str) -> Tensor:
    """What the classifier sees; both views count alike."""
    return given.views[reads] if reads in given.views else torch.cat([*given.views.values()], 1)


def by_cosine(given: TwoViews) -> Tensor:
    """Conductances [E]: how near both ends are in the other view."""
    (source, target), z = given.edge_index, given.views[SECOND]
    cosine = (z[source] * z[target]).sum(-1)
    cosine = (cosine - cosine.mean()) / cosine.std().clamp(min=1e-6)
    return FLOOR + (1 - FLOOR) * torch.sigmoid(SLOPE * cosine)


def graph_for(given: TwoViews, edges: str) -> Data:
    """The graph without features."""
    if edges == JOINT:
        graph = neighbours(read_by(given, BOTH))
        return Data(edge_index=graph.edge_index, edge_weight=graph.edge_weight)
    weight = given.edge_weight * by_cosine(given) if edges == OTHER else given.edge_weight
    return Data(edge_index=given.edge_index, edge_weight=weight)


def make(given: TwoViews, key: Key) -> list[Row]:
    """Self-training, and its scores."""
    data = graph_for(given, key["edges"])
    data.x = read_by(given, key["reads"])
    train = self_training if key["edges"] == AGREEMENT else isotropic_self_training
    found, seconds = runner.timed(lambda: train(data, given.num_classes, key["seed"]))
    return [partition_scores(found, given.y)._asdict() | {SECONDS: seconds}]


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    return runner.parse(runner.make_parser(__doc__, seeds=3, sets=SETS, choices=SETS), argv)


def plan(args: argparse.Namespace) -> list[Table]:
    wanted = runner.keys(dataset=args.sets, reads=READS, edges=EDGES, seed=range(args.seeds))
    wanted = [key for key in wanted if (key["reads"], key["edges"]) in VARIANTS]
    return [Table(args.output / FILE, wanted, make, load)]


def summarise(runs: pd.DataFrame) -> pd.DataFrame:
    """ARI, a row for each variant, a column for each data set."""
    groups = with_variant(runs).groupby(["method", "dataset"], sort=False)["ari"]
    cells = groups.agg(lambda part: f"{part.mean():.3f} ± {part.std(ddof=0):.3f} ({len(part)})")
    return cells.unstack("dataset").rename_axis("classifier reads; edges")


def differences(runs: pd.DataFrame) -> pd.DataFrame:
    """What conductances add to every edge open, for each reading: paired t-tests."""
    both, tests = with_variant(runs), []
    for reads in READS:
        reference = f"{reads}; {OPEN}"
        for edges in (AGREEMENT, OTHER, JOINT):
            pair = both[both["method"].isin([reference, f"{reads}; {edges}"])]
            if pair["method"].nunique() == 2:
                tests.append(paired_comparisons(pair, reference))
    found = pd.concat(tests, ignore_index=True)
    found["p_holm"] = holm_correction(found["p"].to_numpy())
    found["cell"] = [f"{row.difference:+.3f} (p = {row.p_holm:.2g})" for row in found.itertuples()]
    table = found.pivot(index="method", columns="dataset", values="cell")
    table = table.loc[found["method"].unique(), found["dataset"].unique()]
    return table.rename_axis("classifier reads; edges")


def with_variant(runs: pd.DataFrame) -> pd.DataFrame:
    return runs.assign(method=runs["reads"] + "; " + runs["edges"])


def report(args: argparse.Namespace) -> pd.DataFrame:
    """Write the tables from the rows, and return these."""
    runs = runner.read(args.output / FILE)
    text = (
        "# Two views\n\nDoes it pay if the classifier, or the edges, see another view of the nodes "
        "than the one that made the graph? `examples/study/two_views.py` describes the variants."
        "\n\nARI, mean and standard deviation over (so many) seeds\n\n"
    )
    text += f"{as_markdown(summarise(runs), '')}\n"
    if runs["seed"].nunique() > 1:
        text += "\nARI, less that of the same reading with every edge open in the given graph: "
        text += "paired t-tests over the seeds, Holm's correction over the table\n\n"
        text += f"{as_markdown(differences(runs), '')}\n"
    (args.output / "two_views.md").write_text(text)
    print(text)
    return runs


main = partial(runner.run, parse_args, plan, report)

if __name__ == "__main__":
    main()
