"""What the words of documents add beside their embeddings, and at which weight.

    python examples/benchmarks/words.py --data FOLDER --titles title_StackOverflow.txt
    python examples/benchmarks/words.py --quick           # documents of three words, seconds

FOLDER holds agnews8k_minilm.npz and agnews8k.csv.gz, 20newsgroups_train_minilm.npz and
scikit-learn's cache scikit_learn_data, stackoverflow8k_minilm.npz; the titles are those of
github.com/jacoxu/StackOverflow. The weight was chosen on AG News; the other two sets are reported,
at weight 0 and the default alone. Rows that words.csv in --output has already are not run again.
"""

import argparse
import time
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from reporting import Rows, markdown, parser_of, spread
from torch import Tensor

from jsem_pyg.datasets import WordFeatures
from jsem_pyg.estimators import DiffusionClusterer
from jsem_pyg.evaluation import partition_scores

DEVELOPMENT = {"agnews": [0.0, 0.25, 0.5, 1.0]}
REPORTED = {"stackoverflow": [0.0, 0.5], "20newsgroups": [0.0, 0.5]}
KEY = ["dataset", "weight", "seed"]
PAGE = """# Words beside embeddings

`examples/benchmarks/words.py`: MiniLM's embeddings, and the words of the documents beside them at a
weight (`WordFeatures`), clustered by `DiffusionClusterer` with its defaults and the true number of
classes; mean and standard deviation over {seeds} seeds, processor seconds of one thread. The weight
was chosen on AG News; other sets are reported, at that weight alone.

{table}
"""


def load(name: str, args: argparse.Namespace) -> tuple[list[str], Tensor, Tensor]:
    """Documents, their embeddings [N, D], and their classes [N], which scores alone look at."""
    if name == "quick":
        return _quick()
    files = {"agnews": "agnews8k", "stackoverflow": "stackoverflow8k"}
    with np.load(args.data / f"{files.get(name, '20newsgroups_train')}_minilm.npz") as file:
        x, y = torch.from_numpy(file["x"]).float(), torch.from_numpy(file["y"])
        index = file.get("index")
    if name == "agnews":
        table = pd.read_csv(args.data / "agnews8k.csv.gz").fillna("")
        return (table["title"] + " " + table["description"]).tolist(), x, y
    if name == "stackoverflow":
        lines = args.titles.read_text(encoding="utf-8", errors="replace").split("\n")
        return [lines[place].strip() for place in index], x, y
    from sklearn.datasets import fetch_20newsgroups

    home = args.data / "scikit_learn_data"
    removed = ("headers", "footers", "quotes")
    texts = fetch_20newsgroups(data_home=home, remove=removed, download_if_missing=False).data
    return texts, x, y


def _quick() -> tuple[list[str], Tensor, Tensor]:
    """Documents of three words, which the embeddings know less well than the words do."""
    generator = torch.Generator().manual_seed(0)
    topics = ["cat dog cow horse", "tax law court judge", "sea sky sun wind"]
    y = torch.arange(3).repeat(30)
    order = [torch.randperm(4, generator=generator)[:3] for _ in y]
    texts = [" ".join(topics[c].split()[i] for i in o) for c, o in zip(y, order, strict=True)]
    return texts, torch.eye(3, 8)[y] + 0.8 * torch.randn(90, 8, generator=generator), y


def run(texts: list[str], x: Tensor, y: Tensor, weight: float, seed: int) -> dict[str, float]:
    """Scores of the default clusterer, with the true number of classes."""
    began = time.process_time()
    both = WordFeatures(weight).fit(texts).beside(x, texts)
    words = time.process_time() - began
    model = DiffusionClusterer(int(y.max()) + 1, random_state=seed).fit(both.numpy())
    seconds = {"words_seconds": words, "cpu_seconds": time.process_time() - began}
    return partition_scores(torch.from_numpy(model.labels_), y)._asdict() | seconds


def complete(args: argparse.Namespace) -> pd.DataFrame:
    rows = Rows(args.output / "words.csv", *KEY)
    sets = {"quick": [0.0, 0.5]} if args.quick else DEVELOPMENT | REPORTED
    for name in args.sets or sets:
        content = None
        for weight, seed in product(sets[name], range(args.seeds)):
            if not rows.has(name, weight, seed):
                content = load(name, args) if content is None else content
                key = {"dataset": name, "weight": weight, "seed": seed}
                rows.add(key | run(*content, weight, seed))
    return rows.table()


def as_markdown(runs: pd.DataFrame) -> str:
    table = []
    for (name, weight), part in runs.groupby(["dataset", "weight"], sort=False):
        row = {"set": name, "weight": weight}
        row |= {score.upper(): spread(part[score]) for score in ("ari", "nmi", "acc")}
        seconds = f"{part['cpu_seconds'].mean():.0f}, {part['words_seconds'].mean():.1f}"
        table.append(row | {"seconds, words among them": seconds})
    return markdown(pd.DataFrame(table))


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__, "output/words")
    parser.add_argument("--data", type=Path, help="folder of the data")
    parser.add_argument("--titles", type=Path, help="the 20,000 titles of Stack Overflow")
    parser.add_argument("--sets", nargs="+", choices=[*DEVELOPMENT, *REPORTED])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args(argv)
    if args.data is None and not args.quick:
        parser.error("Expected --data FOLDER, or --quick.")
    return args


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    runs = complete(args)
    text = PAGE.format(seeds=runs["seed"].nunique(), table=as_markdown(runs).strip())
    (args.output / "words.md").write_text(text)
    print(text)
    return runs


if __name__ == "__main__":
    main()
