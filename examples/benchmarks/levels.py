"""Levels of clusters: is one of those that are offered as good as the true number?

    python examples/benchmarks/levels.py --data FOLDER          # six data sets, three seeds
    python examples/benchmarks/levels.py --quick                # some digits, seconds

`DiffusionClusterer("auto")` offers up to three levels. Of each: the adjusted Rand index (ARI) with
the classes, beside that of self-training into the true number of classes, all on the graph of
`examples/study`. Labels are for scores alone; the rule was chosen on other data: planted clusters
within clusters, scikit-learn's tables, and docstrings of Python packages with their modules for
classes. That the first level is the number that was taken before there were levels was decided
after first runs on Cora and CiteSeer, where the most persistent one was worse.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "study"))
import pandas as pd
from data_sets import DATA_SETS, StudySet, load
from learned import self_training
from reporting import Rows, markdown, parser_of, timed

from jsem_pyg.evaluation import partition_scores
from jsem_pyg.training import choose_num_classes

CLOSE = 0.03


def measure(study_set: StudySet, seed: int) -> dict[str, object]:
    """The ARI of the first level, of the best, and of the true number."""

    def ari(count: int) -> float:
        found = self_training(study_set.data, count, seed)
        return partition_scores(found, study_set.y).ari

    chosen, seconds = timed(lambda: choose_num_classes(study_set.data, seed=seed))
    scores = [ari(level.num_classes) for level in chosen.levels]
    levels = ", ".join(f"{each.num_classes} ({each.persistence:.2f})" for each in chosen.levels)
    row = {"classes": study_set.num_classes, "levels": levels, "first": scores[0]}
    true = ari(study_set.num_classes)
    return row | {"best": max(scores), "true number": true, "seconds to choose": seconds}


def main(argv: list[str] | None = None) -> pd.DataFrame:
    parser = parser_of(__doc__)
    parser.add_argument("--data", type=Path, help="folder of the embeddings and citations")
    parser.add_argument("--sets", nargs="+", choices=list(DATA_SETS), default=list(DATA_SETS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="some digits, one seed")
    args = parser.parse_args(argv)
    if args.quick:
        args.sets, args.seeds = ["digits"], 1
    rows = Rows(args.output / "levels.csv", "dataset", "seed")
    for name in args.sets:
        for seed in range(args.seeds):
            if not rows.has(name, seed):
                found = measure(load(name, args.data, args.quick), seed)
                rows.add({"dataset": name, "seed": seed} | found)
    runs = rows.table()
    columns = ["first", "best", "true number", "seconds to choose"]
    groups = runs.groupby("dataset", sort=False)
    table = groups[["classes"]].first().join(groups["levels"].agg("; ".join))
    table = table.join(groups[columns].mean()).reset_index()
    close = int((table["best"] >= table["true number"] - CLOSE).sum())
    text = (
        "# Levels of clusters\n\nBy `examples/benchmarks/levels.py`, ARI, means over the seeds; "
        f"levels with their persistence, by seed.\n\n{markdown(table)}\nThe best of the levels is "
        f"within {CLOSE} of the true number on {close} of {len(table)} sets.\n"
    )
    (args.output / "levels.md").write_text(text)
    print(text)
    return runs


if __name__ == "__main__":
    main()
