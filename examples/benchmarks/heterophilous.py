"""Does a conductance that looks at both ends of an edge pay where edges join unlike nodes?

Five graphs of Platonov et al. ("A critical look at the evaluation of GNNs under heterophily: are we
really making progress?", ICLR 2023), with their ten fixed splits: ROC AUC on Minesweeper and
Tolokers, accuracy on Actor and on Chameleon and Squirrel without duplicates. All variants are one
residual network, in which only what the edges carry differs:

    none       nothing: every node by itself
    gcn        `GCNConv`
    open       bands of `AnisotropicDiffusion`: heat through all edges alike
    ends       the same with an `EndpointConductance`, which closes edges
    open_heads four `AnisotropicDiffusion` side by side, each of a quarter of the channels
    ends_heads the same with an `EndpointConductance` for each of them
    learned    bands that are learned polynomials of the Laplacian, in place of heat
    learned_ends  the same along edges that an `EndpointConductance` closes
    learned_maps  five of them in `AnisotropicChebConv`
    cheb       PyG's `ChebConv` of the same degree

`minesweeper_deep` is Minesweeper with twelve blocks, as deep as the best published networks.

    python examples/benchmarks/heterophilous.py --data FOLDER  # FOLDER/{minesweeper,...}.npz
    python examples/benchmarks/heterophilous.py --data FOLDER --sets actor --variants open ends
    python examples/benchmarks/heterophilous.py --quick  # a small grid, seconds

Writes a row a run to heterophilous.csv and the tables to heterophilous_tables.md in --output;
what the CSV has already is not run again. What came out, and what was chosen on which nodes, is in
`examples/results/heterophilous.md`, also of variants and networks that went.
"""

import argparse
import itertools
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import pandas as pd
import torch
import torch.nn.functional as F
from helpers.heterophilous_graphs import PARTS, load, score, small_grid
from helpers.heterophilous_network import VARIANTS, Settings, make_net
from reporting import Rows, markdown, parser_of
from study.comparison import paired_comparisons
from torch.nn import Module
from torch_geometric import seed_everything
from torch_geometric.data import Data

from jsem_pyg.graph import GraphStructure

# Chosen on validation nodes; see examples/results/heterophilous.md.
_WIKIPEDIA = Settings(
    blocks=2, hidden=64, input_dropout=0.9, dropout=0.5, epochs=60, weight_decay=0.1, geometry=True
)
SETTINGS = {
    "minesweeper": Settings(blocks=5, dropout=0.2, epochs=150),
    "minesweeper_deep": Settings(blocks=12, dropout=0.2, epochs=300),
    "tolokers": Settings(epochs=200),
    "actor": Settings(blocks=2, input_dropout=0.5, dropout=0.5, lr=0.003, epochs=30),
    "chameleon_filtered": _WIKIPEDIA,
    "squirrel_filtered": _WIKIPEDIA,
}
QUICK = {"grid": Settings(blocks=2, hidden=8, epochs=6, geometry=True)}

# The best figures of Platonov et al.'s tables; of the tuned GCN of Luo et al. ("Classic GNNs are
# strong baselines", NeurIPS 2024), twelve layers and 2,000 epochs on Minesweeper; and
# of Polynormer (Deng et al., ICLR 2024), as Luo et al. have them.
PUBLISHED = {
    "minesweeper_deep": {"tuned GCN": 97.86, "Polynormer": 97.46},
    "minesweeper": {"GCN": 89.75, "GAT-sep": 93.91},
    "tolokers": {"GCN": 83.64, "GAT-sep": 83.78, "Polynormer": 85.91},
    "chameleon_filtered_deep": {"tuned GCN": 46.29},
    "squirrel_filtered_deep": {"tuned GCN": 45.01},
    "chameleon_filtered": {"GCN": 40.89, "FAGCN": 41.90, "tuned GCN": 46.29},
    "squirrel_filtered": {"GCN": 39.47, "FAGCN": 41.08, "tuned GCN": 45.01},
}
QUESTIONS = (
    ("ends", "open"),
    ("ends_heads", "open_heads"),
    ("ends_heads", "open"),
    ("ends_maps", "open_maps"),
    ("open", "open_maps"),
    ("open", "gcn"),
    ("ends", "gcn"),
    ("learned", "gcn"),
    ("learned", "cheb"),
    ("learned_maps", "cheb"),
    ("learned", "open"),
    ("learned_ends", "learned"),
    ("open", "none"),
    ("times", "learned"),
    ("gated", "learned"),
    ("gated", "times"),
)
NUM_LOOKS = 20  # at the validation nodes, in a training
RUN = ["seed", "dataset", "method"]  # what a row is of; the seed is the split


def run(make: Callable[[], Module], data: Data, split: int, how: Settings) -> dict:
    """Train on one split; the test score is that of the best epoch on the validation nodes."""
    seed_everything(split)
    model = make()
    train, val, test = (data[f"{part}_mask"][:, split] for part in PARTS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=how.lr, weight_decay=how.weight_decay)
    cycle = torch.optim.lr_scheduler.OneCycleLR
    schedule = cycle(optimizer, how.lr, total_steps=how.epochs, pct_start=0.15)
    stride = max(how.epochs // NUM_LOOKS, 1)
    best: dict[str, float] = {"val": -1.0}
    start = time.process_time()
    for epoch in range(1, how.epochs + 1):
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model()[train], data.y[train])
        loss.backward()
        optimizer.step()
        schedule.step()
        if epoch % stride == 0 or epoch == how.epochs:
            model.eval()
            with torch.no_grad():
                logits = model()
            now = score(logits, data, val)
            if now > best["val"]:
                best = {"val": now, "test": score(logits, data, test), "epoch": epoch}
    return best | {"seconds": time.process_time() - start}


def run_missing(path: Path, sets: dict[str, Data], variants: list[str], splits: list[int]) -> None:
    """Run what the file lacks, split by split, so that variants can be paired at any time."""
    graphs = {name: GraphStructure(data.edge_index, data.num_nodes) for name, data in sets.items()}
    rows = Rows(path, *RUN)
    done = set(current(rows.table())[RUN].itertuples(index=False, name=None))
    for key in itertools.product(splits, sets, variants):
        if key not in done:
            split, name, variant = key
            make = partial(make_net, variant, sets[name], graphs[name], SETTINGS[name])
            found = run(make, sets[name], split, SETTINGS[name])
            rows.add(dict(zip(RUN, key, strict=True)) | asdict(SETTINGS[name]) | found)


def current(runs: pd.DataFrame) -> pd.DataFrame:
    """The rows of today's settings, and of sets that are not run any more."""
    is_current = [
        row["dataset"] not in SETTINGS or asdict(SETTINGS[row["dataset"]]).items() <= row.items()
        for row in runs.to_dict("records")
    ]
    return runs[pd.Series(is_current, index=runs.index, dtype=bool)]


def read(path: Path) -> pd.DataFrame:
    return pd.read_csv(path) if path.exists() else pd.DataFrame(columns=RUN)


def summarize(runs: pd.DataFrame) -> str:
    """Two tables in Markdown: scores, and differences paired by split."""
    names = list(runs["dataset"].unique())
    rows = {}
    for variant, part in runs.groupby("method", sort=False):
        test = part.groupby("dataset")["test"].agg(["mean", "std", "size"])
        rows[variant] = {n: spread(m, s, k) for n, m, s, k in test.itertuples()}
    for name in names:
        for model, value in PUBLISHED.get(name, {}).items():
            rows.setdefault(f"{model}, published", {})[name] = f"{value:.2f}"
    text = as_markdown("test, mean ± std (splits)", names, rows)
    return text + "\n" + as_markdown("paired by split", names, differences(runs))


def spread(mean: float, std: float, count: int) -> str:
    return f"{mean:.2f} ± {std:.2f} ({count})" if count > 1 else f"{mean:.2f} (1)"


def differences(runs: pd.DataFrame) -> dict[str, dict[str, str]]:
    """What each question is answered on each graph, as a mean difference and its p.

    A question is a family: Holm's correction is over its graphs.
    """
    rows = {}
    for method, reference in QUESTIONS:
        asked = runs[runs["method"].isin([method, reference])]
        counts = asked.groupby(["dataset", "seed"])["method"].nunique()
        shared = counts[counts == 2].groupby("dataset").size()
        asked = asked[asked["dataset"].isin(shared.index[shared > 1])]
        if len(asked):
            tests = paired_comparisons(asked, reference, score="test")
            rows[f"`{method}` less `{reference}`"] = {
                each.dataset: f"{each.difference:+.2f} (p = {each.p_holm:.2g})"
                for each in tests.itertuples()
            }
    return rows


def as_markdown(corner: str, names: list[str], rows: dict[str, dict[str, str]]) -> str:
    table = pd.DataFrame.from_dict(rows, orient="index").reindex(columns=names).fillna("")
    return markdown(table.rename_axis(corner).reset_index())


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__, "output/heterophilous")
    parser.add_argument("--data", type=Path, help="folder of the five .npz files")
    parser.add_argument("--sets", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--splits", nargs="+", type=int, choices=range(10), default=list(range(10)))
    parser.add_argument("--quick", action="store_true", help="a small grid, two splits, six epochs")
    args = parser.parse_args(argv)
    if args.data is None and not args.quick:
        parser.error("Expected --data FOLDER, or --quick.")
    return args


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    path = args.output / "heterophilous.csv"
    if args.quick:
        SETTINGS.update(QUICK)
        run_missing(path, dict.fromkeys(QUICK, small_grid()), args.variants, [0, 1])
    else:
        sets = {name: load(name.removesuffix("_deep"), args.data) for name in args.sets}
        run_missing(path, sets, args.variants, args.splits)
    runs = current(read(path))
    text = summarize(runs)
    (args.output / "heterophilous_tables.md").write_text(text)
    print(text)
    return runs


if __name__ == "__main__":
    main()
