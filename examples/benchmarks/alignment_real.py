"""Which node is which, on the graphs that the field compares itself on?

For each file of --data: a graph loses a share of its edges, in the target ("one-way") or in both
copies ("two-way"); or has versions or a partner of its own ("real"). `alignment_cases.py` reads the
files, also yours, and says what is scored; `alignment_ways.py` has the ways. Every run is a process
of its own on one thread, and one line of `alignment_real_runs.csv`; runs that are there already are
not repeated. CPU seconds are from adjacency matrices to partners, peak memory is beyond both.

    export OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1
    python examples/benchmarks/alignment_real.py --data DIR              # everything: a day
    python examples/benchmarks/alignment_real.py --data DIR --peers DIR --graphs bio-celegans
    python examples/benchmarks/alignment_real.py --data my_edges.txt     # an edge a line
"""

import argparse
import contextlib
import math
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))
import matplotlib
import pandas as pd
import torch
from helpers import alignment_cases, alignment_ways
from reporting import PeakMemory, Rows, isolated, machine, markdown, parser_of
from scipy.sparse import csr_array, random_array, triu

matplotlib.use("Agg")
from matplotlib import pyplot as plt

RUN = ["graph", "kind", "noise", "seed", "way"]
SCORES = ["accuracy", "twins", "overlap", "true overlap", "MRR", "Hits@5", "CPU s", "MB"]
CELLS = {"snare-seq", "scgem"}  # beside the graphs, without edges
SUFFIXES = (".npz", ".txt", ".edgelist")


class Run(NamedTuple):
    """One line of the table of runs."""

    path: Path
    noise: alignment_cases.Noise
    seed: int
    way: str
    peers: Path | None


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    add = parser.add_argument
    add("--data", type=Path, required=True, help="a folder of graphs, or one graph")
    add("--graphs", nargs="+", help="names of files, without their endings; all")
    add("--kinds", nargs="+", default=["one-way", "two-way", "real"])
    add("--noise", type=float, nargs="+", default=[0, 5, 10, 15, 20, 25], help="%% of the edges")
    add("--seeds", type=int, default=5)
    add("--ways", nargs="+", choices=list(alignment_ways.WAYS), default=list(alignment_ways.WAYS))
    add("--peers", type=Path, help="folder with clones of the peers' code")
    add("--peer-nodes", type=int, default=1 << 62, help="larger graphs are for ours alone")
    add("--limit", type=float, default=3600, help="seconds for one run")
    add("--one-process", action="store_true", help="for debugging")
    return parser.parse_args(argv)


def runs(args: argparse.Namespace) -> Iterator[Run]:
    """All that is to be measured, small files first, and the first seed of all before the next."""
    is_pair = (args.data / "Alignment.json").is_file()
    paths = [args.data] if args.data.is_file() or is_pair else list(args.data.iterdir())
    readable = [path for path in paths if path.is_dir() or path.suffix in SUFFIXES]
    missing = set(args.graphs or ()) - {path.stem for path in readable}
    if missing:
        raise SystemExit(f"--graphs: no {', '.join(sorted(missing))} in {args.data}")
    named = [path for path in readable if path.stem in (args.graphs or {path.stem} - CELLS)]
    for seed in range(args.seeds):
        for path in sorted(named, key=lambda path: path.stat().st_size):
            for noise in alignment_cases.noises(path, args.kinds, args.noise):
                yield from (Run(path, noise, seed, way, args.peers) for way in args.ways)


def measure(run: Run) -> dict[str, Any]:
    case = alignment_cases.make_case(run.path, run.noise, run.seed)
    pair = case.source, case.target
    # Loads and compiles. For peers, a small graph may be too small.
    peers_may_fail = contextlib.suppress(Exception if run.way != "ours" else ())
    with peers_may_fail:
        alignment_ways.match(run.way, *small_pair(), "", run.peers)
    memory, started = PeakMemory(), time.process_time()
    partner, fit = alignment_ways.match(run.way, *pair, run.path.stem, run.peers)
    seconds = time.process_time() - started
    found = {"CPU s": seconds, "MB": memory.stop() / 2**20, "nodes": case.source.shape[0]}
    return alignment_cases.scores(case, partner, fit) | found


def small_pair() -> tuple[csr_array, csr_array]:
    """Two unlike graphs of 40 nodes, with few enough neighbours for all parts of the search."""
    edges = (random_array((40, 40), density=0.07, random_state=seed) for seed in (0, 1))
    first, second = (triu(each, 1) + triu(each, 1).T for each in edges)
    return tuple((each != 0).astype(float).tocsr() for each in (first, second))


def run_all(args: argparse.Namespace) -> pd.DataFrame:
    """All runs, of which those in the file are not repeated, if they have an answer."""
    rows = Rows(args.output / "alignment_real_runs.csv", *RUN)
    sizes: dict[Path, int] = {}
    for run in runs(args):
        key = (run.path.stem, *run.noise, run.seed, run.way)
        if rows.has(*key):
            continue
        note = alignment_ways.missing(run.way, run.peers)
        if run.way != "ours" and not note:
            if run.path not in sizes:
                sizes[run.path] = alignment_cases.make_case(run.path, run.noise, 0).source.shape[0]
            if sizes[run.path] > args.peer_nodes:
                note = f"not run on more than {args.peer_nodes} nodes"
        apart = partial(isolated, quiet, limit=args.limit)
        found = {"note": note} if note else (measure if args.one_process else apart)(run)
        rows.add(dict(zip(RUN, key, strict=True)) | found)
    if not rows.rows:
        raise SystemExit(f"no graph in {args.data} for --graphs and --kinds")
    return pd.read_csv(rows.path, dtype={"note": str, "noise": str})


def quiet(run: Run) -> dict[str, Any]:
    """`measure` on one thread, of which some peers take as many as they like."""
    torch.set_num_threads(1)
    torch.set_num_threads = lambda count: None
    return measure(run)


def in_order(rows: pd.DataFrame) -> pd.DataFrame:
    """By size of graph, kind and level of noise, and way."""
    size = rows.groupby("graph")["nodes"].transform("max")
    level = rows["noise"].str.extract(r"([0-9.]+)")[0].astype(float)
    place = rows["way"].map(alignment_ways.NAMES.index)
    order = rows.assign(_size=size, _level=level, _place=place)
    order = order.sort_values(["_size", "graph", "kind", "_level", "_place", "seed"])
    return order.drop(columns=["_size", "_level", "_place"])


def accuracy_table(rows: pd.DataFrame) -> pd.DataFrame:
    """A row for each graph and noise, a column for each way."""
    groups = rows.groupby(["graph", "kind", "noise", "way"], sort=False)["accuracy"]
    mean, spread = groups.mean().unstack("way"), groups.std().unstack("way")
    text = mean.map("{:.3f}".format)
    best = mean.round(3).eq(mean.round(3).max(axis=1), axis=0)
    text = text.where(~best, "**" + text + "**")
    text = text.where(spread.isna(), text + " ± " + spread.map("{:.3f}".format))
    text = text.where(mean.notna(), "")
    return text[[way for way in alignment_ways.NAMES if way in text]].reset_index()


def detail_table(rows: pd.DataFrame) -> pd.DataFrame:
    """A row for each graph, kind of noise and way: means over noise and seeds."""
    keys = ["graph", "kind", "noise", "seed"]
    ours = rows[rows["way"] == "ours"].set_index(keys)["CPU s"]
    cases = pd.MultiIndex.from_frame(rows[keys])
    rows = rows.assign(**{"CPU / ours": rows["CPU s"].to_numpy() / ours.reindex(cases).to_numpy()})
    groups = rows.groupby(["graph", "kind", "way"], sort=False)
    table = groups[[*SCORES, "CPU / ours"]].mean()
    table.insert(0, "runs", groups.size())
    return table.reset_index()


def draw(rows: pd.DataFrame, file: Path) -> None:
    """Accuracy over noise, a panel for each graph and kind of noise."""
    panels = list(rows.groupby(["graph", "kind"], sort=False))
    columns = min(4, len(panels))
    lines = math.ceil(len(panels) / columns)
    figure, axes = plt.subplots(lines, columns, squeeze=False, sharey=True, layout="constrained")
    figure.set_size_inches(3.1 * columns, 2.3 * lines + 0.7)
    colours = dict(zip(alignment_ways.NAMES, plt.get_cmap("tab10").colors, strict=False))
    handles: dict[str, Any] = {}
    for axis, ((graph, kind), part) in zip(axes.flat, panels, strict=False):
        axis.set_title(f"{graph}, {kind}", fontsize=9)
        for way, line in part.groupby("way", sort=False):
            means = line.groupby("noise", sort=False)["accuracy"].agg(["mean", "min", "max"])
            style = {"color": colours[way], "lw": 2.4 if way == "ours" else 1.2}
            handles[way] = axis.plot(means.index, means["mean"], "o-", ms=3, **style)[0]
            axis.fill_between(means.index, means["min"], means["max"], fc=colours[way], alpha=0.15)
        axis.set_ylim(-0.02, 1.02)
        axis.grid(alpha=0.3)
    for axis in axes.flat[len(panels) :]:
        axis.axis("off")
    for axis in axes[:, 0]:
        axis.set_ylabel("accuracy")
    figure.supxlabel("% of edges removed (real noise: the version)", fontsize=9)
    figure.legend(handles.values(), handles, loc="outside upper center", ncols=8, fontsize=8)
    figure.savefig(file, dpi=80)
    plt.close(figure)


PAGE = """# Which node is which: real graphs

Written by `examples/benchmarks/alignment_real.py`, which runs on graphs of your own as well.
{machine}; every run on one thread, in a process of its own.
Seeds for a graph and way: {fewest} to {most}. Peers run with the parameters of their own code,
FUGAL with its authors' `mu` for each graph; commit `c1abfc32` is the last that runs
GRAMPA, CONE and GRASP. Every run is in `alignment_real_runs.csv`.

Rows may be of different days, and CPU seconds are up to three times as many where the machine had
other work: compare them where ways ran in turn.

![Accuracy over noise](alignment_real.png)

## Accuracy

Share of the nodes that get their true partner: mean ± standard deviation over seeds, the best in
bold. One-way: so many percent of the edges are removed from the target. Two-way: from each graph.
Real: two versions of a measured network, of which the number names the second, or two networks
of the same nodes ("pair").

{accuracy}

## All scores

Means over noise and seeds. **twins**: accuracy if nodes with the very same neighbours, which nobody
can tell apart, count as right. **overlap**: edges in common, as a share of those of the graph that
has fewer; where it reaches the **true overlap**, edges cannot tell the answer from the truth.
**MRR** and **Hits@5** rank all partners of a node: the one that the way gives comes first, then all
by the scores of the way, or, where it has none, by how many of their neighbours are partners.
**CPU / ours**: mean of the ratios in the same cases.

{detail}

## Not run, or without an answer

{skipped}
"""


def page(rows: pd.DataFrame) -> str:
    done = in_order(rows[rows["accuracy"].notna()])
    failed = rows[rows["accuracy"].isna()] if "note" in rows else rows[:0]
    reasons = failed.groupby(["way", "note"], sort=False)["graph"].unique() if len(failed) else {}
    lines = [f"- {way}: {note} ({', '.join(names)})." for (way, note), names in reasons.items()]
    seeds = done.groupby(["graph", "way"])["seed"].nunique()
    return PAGE.format(
        machine=machine(),
        fewest=seeds.min(),
        most=seeds.max(),
        accuracy=rounded(accuracy_table(done)),
        detail=rounded(detail_table(done)),
        skipped="\n".join(lines) or "Nothing.",
    )


def rounded(table: pd.DataFrame) -> str:
    digits = {"runs": 0, "CPU s": 2, "MB": 0, "CPU / ours": 1}
    cells = {
        name: column.map(f"{{:.{digits.get(name, 3)}f}}".format)
        if pd.api.types.is_numeric_dtype(column)
        else column
        for name, column in table.items()
    }
    return markdown(pd.DataFrame(cells))


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    rows = run_all(args)
    if "accuracy" not in rows:
        raise SystemExit("no run has an answer: see the notes in alignment_real_runs.csv")
    draw(in_order(rows[rows["accuracy"].notna()]), args.output / "alignment_real.png")
    (args.output / "alignment_real.md").write_text(page(rows))
    return rows


if __name__ == "__main__":
    main()
