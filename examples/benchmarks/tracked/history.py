"""Write the page of the tracked figures: one column a commit, from what `asv run` has stored.

bash .ci/benchmarks            # runs the suite on the present commit, then this
"""

import argparse
import json
from pathlib import Path

import pandas as pd
from asv.results import iter_results
from suite import central

HERE = Path(__file__).parent
NOTES = (
    "# Tracked figures\n\n"
    "Written by `bash .ci/benchmarks`. Each figure is a ratio, seconds of ours over seconds of a "
    "named baseline, both in turn in one process: below one, ours is faster. The code and the "
    "baselines are in `examples/benchmarks/tracked/suite/`. A place is empty if a figure was "
    "not measured on a commit. From 27 November 2026 on, seconds are of the processor on one "
    "thread; before, they were by the clock on two idle cores.\n"
)


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    results = json.loads((HERE / "asv.conf.json").read_text())["results_dir"]
    parser.add_argument("--results", type=Path, default=HERE / results)
    parser.add_argument("--output", type=Path, default=HERE.parent.parent / "results")
    return parser.parse_args(argv)


def stored(folder: Path) -> pd.DataFrame:
    """A row for each figure and commit: date, commit, figure, ratio."""
    rows = []
    for result in iter_results(str(folder)):
        for key in result.get_all_result_keys():
            ((ratio, *_),) = [result.get_result_value(key, [])]
            if ratio is not None:
                date = pd.Timestamp(result.date, unit="ms").date().isoformat()
                name = key.rpartition(".track_")[2]
                rows.append((date, result.commit_hash[:8], name, ratio))
    return pd.DataFrame(rows, columns=["date", "commit", "figure", "ratio"])


def shown(ratio: float) -> str:
    return "" if pd.isna(ratio) else f"{ratio:.3g}"


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    path = args.output / "tracked.csv"
    old = [pd.read_csv(path, dtype={"commit": str})] if path.exists() else []
    history = pd.concat([*old, stored(args.results)], ignore_index=True)
    history = history.drop_duplicates(["commit", "figure"], keep="last")
    history = history.sort_values("date", kind="stable")  # in the order in which they came
    args.output.mkdir(parents=True, exist_ok=True)
    history.round(4).to_csv(path, index=False)

    table = history.assign(column=history["date"] + " " + history["commit"])
    columns = table["column"].unique()
    table = table.pivot(index="figure", columns="column", values="ratio")[columns]
    lines = [NOTES, f"| figure | what | {' | '.join(table.columns)} |"]
    lines.append("| --- | --- |" + " --- |" * len(table.columns))
    for name, row in table.iterrows():
        figure = getattr(central, f"track_{name}", getattr(central.Central, f"track_{name}", None))
        what = (figure.__doc__ or "").strip() if figure else "(no longer measured)"
        lines.append(f"| {name} | {what} | {' | '.join(map(shown, row))} |")
    (args.output / "tracked.md").write_text("\n".join(lines) + "\n")
    return history


if __name__ == "__main__":
    main()
