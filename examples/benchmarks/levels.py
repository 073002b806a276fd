"""Levels of clusters: is one of those that are offered as good as the true number?

    python examples/benchmarks/levels.py --data FOLDER          # six data sets, three seeds
    python examples/benchmarks/levels.py --quick                # some digits, seconds

`DiffusionClusterer("auto")` offers up to three levels. Of each: the adjusted Rand index (ARI) with
the classes, beside that of self-training into the true number of classes, and into the number that
`choose_num_classes` took before there were levels, which the study has in `num_classes.csv`. All
take the graph of `examples/study`. Labels are for scores alone; the rule was chosen on other data:
planted clusters within clusters, scikit-learn's tables, and docstrings of Python packages with
their modules for classes. That the first level is the number that was taken before was decided
after first runs on Cora and CiteSeer, where the most persistent one was worse.

Runs are kept as rows of a CSV file beside --output; what is there is not run again.
"""

import argparse
import sys
from pathlib import Path
from time import perf_counter

import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[1] / "study"))

from data_sets import DATA_SETS, StudySet, load
from learned import self_training

from jsem_pyg.evaluation import partition_scores
from jsem_pyg.training import choose_num_classes

BEFORE = Path(__file__).parents[1] / "study/results/num_classes.csv"
CHOSEN = "self-training, chosen"
CLOSE = 0.03


def measure(study_set: StudySet, seed: int) -> dict[str, object]:
    """The ARI of each level, of the true number and of the rule before."""
    scores: dict[int, float] = {}

    def ari(count: int) -> float:
        if count not in scores:
            found = self_training(study_set.data, count, seed)
            scores[count] = partition_scores(found, study_set.y).ari
        return scores[count]

    begin = perf_counter()
    levels = choose_num_classes(study_set.data, seed=seed).levels
    took = perf_counter() - begin
    numbers = [level.num_classes for level in levels]
    return {
        "levels": ", ".join(f"{each.num_classes} ({each.persistence:.2f})" for each in levels),
        "first": ari(numbers[0]),
        "best": max(map(ari, numbers)),
        "true": ari(study_set.num_classes),
        "seconds": took,
    }


def rule_before(name: str, seed: int) -> dict[str, object]:
    """The number of clusters that the rule before took, and its ARI."""
    runs = pd.read_csv(BEFORE).query("dataset == @name and method == @CHOSEN and seed == @seed")
    [row] = runs.to_dict("records")
    return {"number before": row["clusters"], "before": row["ari"]}


def summarise(runs: pd.DataFrame) -> str:
    """A table in Markdown: means over the seeds, with the levels of each."""
    lines = [
        "| | classes | levels (persistence), by seed | ARI: first | best | true number | best less "
        "true | before: numbers | before: ARI | first less before | seconds to choose |",
        f"|{' --- |' * 11}",
    ]
    for name, part in runs.groupby("dataset", sort=False):
        mean = part[["first", "best", "true", "before", "seconds"]].mean()
        numbers = sorted(part["number before"].unique())
        lines.append(
            f"| {name} | {part['classes'].iloc[0]} | {'; '.join(part['levels'])} | "
            f"{mean['first']:.3f} | {mean['best']:.3f} | {mean['true']:.3f} | "
            f"{mean['best'] - mean['true']:+.3f} | {', '.join(map(str, numbers))} | "
            f"{mean['before']:.3f} | {mean['first'] - mean['before']:+.3f} | "
            f"{mean['seconds']:.1f} |"
        )
    means = runs.groupby("dataset")[["first", "best", "true", "before"]].mean()
    close = int((means["best"] >= means["true"] - CLOSE).sum())
    no_worse = int((means["first"] >= means["before"] - 5e-4).sum())
    return "\n".join(lines) + (
        f"\n\nThe best of the levels is within {CLOSE} of the true number on {close} of "
        f"{len(means)} sets; the first level is no worse than the rule before on {no_worse}.\n"
    )


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder of the embeddings and citations")
    parser.add_argument("--sets", nargs="+", choices=list(DATA_SETS), default=list(DATA_SETS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("output/levels.md"))
    parser.add_argument("--quick", action="store_true", help="some digits, one seed")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    if args.quick:
        args.sets, args.seeds = ["digits"], 1
    path = args.output.with_suffix(".csv")
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = pd.read_csv(path).to_dict("records") if path.exists() else []
    there = {(row["dataset"], row["seed"]) for row in rows}
    for name in args.sets:
        missing = [seed for seed in range(args.seeds) if (name, seed) not in there]
        study_set = load(name, args.data, args.quick) if missing else None
        for seed in missing:
            row = {"dataset": name, "classes": study_set.num_classes, "seed": seed}
            rows.append(row | measure(study_set, seed) | rule_before(name, seed))
            print(rows[-1], flush=True)
            pd.DataFrame(rows).to_csv(path, index=False)
    runs = pd.DataFrame(rows)
    text = "# Levels of clusters\n\nBy `examples/benchmarks/levels.py`, means over the seeds.\n\n"
    args.output.write_text(text + summarise(runs))
    return runs


if __name__ == "__main__":
    main()
