"""Topics of BERTopic: `DiffusionClusterer` in place of UMAP and HDBSCAN.

    python examples/benchmarks/bertopic_topics.py --data FOLDER
    python examples/benchmarks/bertopic_topics.py --quick      # documents of three words, seconds

FOLDER is that of `words.py`. All ways get the same embeddings, the same `CountVectorizer` and all
other defaults of BERTopic; classes are for scores alone. Measured are: topics; documents without
one; the adjusted Rand index (ARI) with the classes, of all documents (those without a topic count
as a topic) and of those that have one; coherence, the normalised pointwise mutual information of
the ten words of a topic over the documents (Bouma, 2009), -1 for words that never meet; diversity,
the share of these words that are in one topic alone (Dieng, Ruiz and Blei, 2020); processor
seconds; and the ARI between runs with different seeds. Runs that `bertopic.csv` in --output has
already are not run again.
"""

import argparse
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
from bertopic import BERTopic
from bertopic.dimensionality import BaseDimensionalityReduction
from reporting import Rows, markdown, parser_of, spread, timed
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import adjusted_rand_score
from umap import UMAP
from words import load

from jsem_pyg.estimators import DiffusionClusterer

KEY = ["dataset", "way", "seed"]
NUM_WORDS = 10
PAGE = """# Topics of BERTopic

`examples/benchmarks/bertopic_topics.py`: `DiffusionClusterer` in place of UMAP and HDBSCAN, with
BERTopic {version}; {documents}, means over {seeds} seeds. "K" is
the number of classes: given to the clusterer, or to `reduce_topics`. Documents without a topic
count as a topic of their own for the first ARI and are left out for the second. Coherence is the
normalised pointwise mutual information of the ten words of a topic over the documents, diversity
the share of words that are in one topic alone. The seconds are of the processor, one thread,
embeddings apart; `reduce_topics` starts from the fitted default. "Runs alike" is the ARI between
runs with different seeds.

Stack Overflow is measured where its titles are given (`--sets stackoverflow --titles FILE`); only
their embeddings are among the data.

{table}
"""


def usual(seed: int) -> BERTopic:
    """BERTopic as it comes; its UMAP is seeded, and otherwise as BERTopic sets it."""
    umap = UMAP(15, 5, min_dist=0.0, metric="cosine", low_memory=False, random_state=seed)
    return BERTopic(umap_model=umap, vectorizer_model=CountVectorizer(stop_words="english"))


def ours(count: int | str, seed: int) -> BERTopic:
    """Heat between neighbours of the embeddings themselves."""
    return BERTopic(
        umap_model=BaseDimensionalityReduction(),
        hdbscan_model=DiffusionClusterer(count, random_state=seed),
        vectorizer_model=CountVectorizer(stop_words="english"),
    )


def fits(texts: list[str], x: np.ndarray, count: int, seed: int) -> dict[str, Callable]:
    """The models of a seed, each fitted when it is called."""

    def reduced() -> BERTopic:
        nonlocal fitted
        fitted = fitted or fit(usual(seed))
        return fitted.reduce_topics(texts, nr_topics=count + (-1 in fitted.topics_))

    def default() -> BERTopic:
        nonlocal fitted
        fitted = fit(usual(seed))
        return fitted

    def fit(model: BERTopic) -> BERTopic:
        return model.fit(texts, x)

    fitted: BERTopic | None = None
    return {
        "UMAP, HDBSCAN": default,
        "UMAP, HDBSCAN, reduced to K": reduced,
        "DiffusionClusterer": lambda: fit(ours("auto", seed)),
        "DiffusionClusterer(K)": lambda: fit(ours(count, seed)),
    }


def coherence(words: list[list[str]], texts: list[str]) -> float:
    """Mean over topics, and pairs of their words, of the normalised mutual information."""
    vocabulary = sorted({word for topic in words for word in topic})
    counts = CountVectorizer(vocabulary=vocabulary, binary=True).fit_transform(texts)
    both = (counts.T @ counts).toarray() / len(texts)
    place = {word: i for i, word in enumerate(vocabulary)}
    means = []
    for topic in words:
        # BERTopic strips signs inside words, so that some are in no document as they are
        seen_words = [place[word] for word in topic if both[place[word], place[word]] > 0]
        if len(seen_words) < 2:
            continue
        i, j = np.array(list(combinations(seen_words, 2))).T
        together = both[i, j]
        seen = np.where(together > 0, together, 1.0)
        mutual = np.log(seen / (both[i, i] * both[j, j]))
        normalised = mutual / np.maximum(-np.log(seen), 1e-12)
        means.append(np.where(together > 0, normalised, -1.0).mean())
    return float(np.mean(means))


def score(model: BERTopic, texts: list[str], y: np.ndarray) -> dict[str, float]:
    """The scores of the docstring, but for seconds and the agreement of runs."""
    topics = np.array(model.topics_)
    has = topics >= 0
    words = [
        [word for word, _ in model.get_topic(topic)[:NUM_WORDS] if word]
        for topic in np.unique(topics[has])
    ]
    listed = [word for topic in words for word in topic]
    return {
        "topics": len(words),
        "without a topic": 1 - has.mean(),
        "ari": adjusted_rand_score(y, topics),
        "ari of the others": adjusted_rand_score(y[has], topics[has]),
        "coherence": coherence([topic for topic in words if len(topic) > 1], texts),
        "diversity": len(set(listed)) / len(listed),
    }


def complete(args: argparse.Namespace) -> pd.DataFrame:
    """All runs: those of the file, and those that it lacks."""
    rows = Rows(args.output / "bertopic.csv", *KEY)
    for name in args.sets:
        texts, x, y = load(name, args)
        x, y, count = x.numpy(), y.numpy(), int(y.max()) + 1
        if args.documents is not None and args.documents < len(texts):
            drawn = np.random.default_rng(0).permutation(len(texts))[: args.documents]
            texts, x, y = [texts[i] for i in drawn], x[drawn], y[drawn]
        if not args.quick:  # compile what is compiled at its first call
            for fit in fits(texts[:300], x[:300], count, 0).values():
                fit()
        for seed in range(args.seeds):
            for way, fit in fits(texts, x, count, seed).items():
                if not rows.has(name, way, seed):
                    model, seconds = timed(fit)
                    np.save(args.output / file_of(name, way, seed), model.topics_)
                    row = {"dataset": name, "way": way, "seed": seed} | score(model, texts, y)
                    rows.add(row | {"seconds": seconds})
    return rows.table()


def file_of(name: str, way: str, seed: int) -> str:
    """The file of the topics of a run, from which the agreement of runs is computed."""
    return f"{name}-{''.join(filter(str.isalnum, way))}-{seed}.npy"


def as_markdown(runs: pd.DataFrame, folder: Path) -> str:
    names = {"ari": "ARI", "ari of the others": "ARI of those with one"}
    table = []
    for (name, way), part in runs.groupby(["dataset", "way"], sort=False):
        row = {"set": name, "way": way, "topics": ", ".join(str(each) for each in part["topics"])}
        row["without a topic"] = f"{100 * part['without a topic'].mean():.0f} %"
        for score_name in ("ari", "ari of the others", "coherence", "diversity"):
            row[names.get(score_name, score_name)] = spread(part[score_name])
        row["seconds"] = f"{part['seconds'].mean():.0f}"
        found = [np.load(folder / file_of(name, way, seed)) for seed in part["seed"]]
        alike = [adjusted_rand_score(a, b) for a, b in combinations(found, 2)]
        table.append(row | {"runs alike": f"{np.mean(alike):.3f}" if alike else ""})
    return markdown(pd.DataFrame(table))


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__, "output/bertopic")
    parser.add_argument("--data", type=Path, help="folder of the data")
    parser.add_argument("--titles", type=Path, help="the 20,000 titles of Stack Overflow")
    parser.add_argument("--sets", nargs="+", default=["agnews", "20newsgroups"])
    parser.add_argument("--documents", type=int, help="so many of each set, drawn at random")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--page", type=Path, help="where the page goes; --output otherwise")
    parser.add_argument("--quick", action="store_true", help="documents of three words")
    args = parser.parse_args(argv)
    if args.quick:
        args.sets, args.seeds = ["quick"], 1
    return args


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    runs = complete(args)
    from bertopic import __version__

    seeds, table = runs["seed"].nunique(), as_markdown(runs, args.output)
    page = args.page or args.output / "bertopic.md"
    documents = f"{args.documents:,} documents of each set" if args.documents else "all documents"
    facts = {"version": __version__, "documents": documents, "seeds": seeds, "table": table}
    page.write_text(PAGE.format(**facts))
    return runs


if __name__ == "__main__":
    main()
