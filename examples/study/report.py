"""From the CSV of the runs: the table, the tests, the figure."""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import pandas as pd
from comparison import holm_correction, paired_comparisons

REFERENCES = ["heat", "UMAP"]
OURS = "self-training"


def write_report(runs: pd.DataFrame, folder: Path) -> str:
    """Write summary.md and ari.png; return the Markdown."""
    text = markdown(runs, compare(runs))
    (folder / "summary.md").write_text(text)
    save_figure(draw(runs), folder / "ari.png")
    return text


def save_figure(figure: plt.Figure, path: Path) -> None:
    """Write a figure, and forget it."""
    figure.savefig(path, dpi=150)
    plt.close(figure)


def panels(names: list[str], width: float, height: float) -> tuple[plt.Figure, dict[str, plt.Axes]]:
    """A figure with a panel for each data set, by name, at most three in a row."""
    columns = min(3, len(names))
    rows = -(-len(names) // columns)
    size = (width * columns, height * rows)
    figure, axes = plt.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False)
    for axis in axes.flat[len(names) :]:
        axis.axis("off")
    return figure, dict(zip(names, axes.flat, strict=False))


def legend(figure: plt.Figure, columns: int) -> None:
    """What the first panel names, below all of them."""
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)


def compare(runs: pd.DataFrame) -> pd.DataFrame:
    """Every method against each reference by ARI; Holm's correction within a reference.

    Empty if no reference was run, or only one seed.
    """
    tables = [
        paired_comparisons(runs, reference).assign(reference=reference)
        for reference in REFERENCES
        if reference in set(runs["method"])
    ]
    columns = ["dataset", "method", "verdict", "reference"]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=columns)


def ask_of_ours(runs: pd.DataFrame) -> pd.DataFrame:
    """The study's own question: is our method better than each reference? One family of tests."""
    parts = []
    for reference in REFERENCES:
        both = runs[runs["method"].isin([OURS, reference])]
        if both["method"].nunique() == 2:
            parts.append(paired_comparisons(both, reference).assign(reference=reference))
    if not parts:
        return pd.DataFrame()
    tests = pd.concat(parts, ignore_index=True)
    tests["p_holm"] = holm_correction(tests["p"].to_numpy())
    tests["text"] = [
        f"{row.difference:+.3f} (p = {row.p_holm:.2g}, {row.pairs} seeds)"
        for row in tests.itertuples()
    ]
    return tests


def markdown(runs: pd.DataFrame, tests: pd.DataFrame) -> str:
    """A table a score, and one of wins and losses against each reference."""
    parts = [
        f"## {score.upper()}, mean over the seeds\n\n{as_markdown(pivot(runs, score), '.3f')}"
        for score in ("ari", "nmi", "acc", "purity")
    ]
    times = as_markdown(pivot(runs, "cpu_seconds"), ".3g")
    parts.append(f"## Processor seconds, without the k-NN graph and k-means\n\n{times}")
    asked = ask_of_ours(runs)
    if len(asked):
        table = asked.pivot(index="reference", columns="dataset", values="text")
        table = table.reindex(index=REFERENCES, columns=asked["dataset"].unique()).dropna(how="all")
        parts.append(
            f"## ARI of {OURS} less that of a reference: paired t-tests, Holm-corrected\n\n"
            f"{as_markdown(table, '')}"
        )
    for reference, part in tests.groupby("reference", sort=False):
        verdict = part.pivot(index="method", columns="dataset", values="verdict")
        verdict = verdict.reindex(index=part["method"].unique(), columns=part["dataset"].unique())
        parts.append(
            f"## ARI against {reference}: paired t-tests over the seeds, Holm-corrected p < 0.05"
            f"\n\n{as_markdown(verdict, '')}"
        )
    return "\n\n".join(["# Every method, every score", *parts]) + "\n"


def pivot(runs: pd.DataFrame, score: str) -> pd.DataFrame:
    """Mean scores, methods by data sets, in the order of the runs."""
    table = runs.pivot_table(index="method", columns="dataset", values=score, sort=False)
    return table.reindex(columns=runs["dataset"].unique())


def as_markdown(table: pd.DataFrame, form: str) -> str:
    """A table as Markdown; what was not run, or has no such score, stays empty."""
    cells = table.map(lambda value: "" if pd.isna(value) else format(value, form))
    lines = [f"| {table.index.name} | {' | '.join(table.columns)} |"]
    lines.append("| --- " * (len(table.columns) + 1) + "|")
    lines += [f"| {name} | {' | '.join(row)} |" for name, row in cells.iterrows()]
    return "\n".join(lines)


def draw(runs: pd.DataFrame) -> plt.Figure:
    """The ARI of each method with the spread of its seeds, a panel for each data set."""
    figure, axes = panels(list(runs["dataset"].unique()), 4.5, 4.2)
    for name, axis in axes.items():
        groups = runs[runs["dataset"] == name].groupby("method", sort=False)["ari"]
        mean, spread = groups.mean()[::-1], groups.std(ddof=0)[::-1]
        emphasis = dict.fromkeys(REFERENCES, "C1") | {OURS: "C2"}
        colours = [emphasis.get(method, "C0") for method in mean.index]
        axis.barh(mean.index, mean, xerr=spread, color=colours)
        for reference in mean[mean.index.isin(REFERENCES)]:
            axis.axvline(reference, color="C1", linewidth=0.8)
        axis.set(title=name, xlabel="ARI, mean ± spread of the seeds")
    return figure
