"""Does a conductance that looks at both ends of an edge pay where edges join unlike nodes?

Five graphs of Platonov et al. ("A critical look at the evaluation of GNNs under heterophily: are we
really making progress?", ICLR 2023), with their ten fixed splits: ROC AUC on Minesweeper and
Tolokers, accuracy on Actor and on Chameleon and Squirrel without duplicates. All variants are one
residual network, in which only what the edges carry differs:

    none    nothing: every node by itself
    gcn     `GCNConv`
    open    `AnisotropicDiffusion` without a conductance: heat through all edges alike
    ends    `AnisotropicDiffusion` with an `EndpointConductance`, which closes edges
    signed  the same with conductances in (-1, 1): an edge may turn what it carries round

    python examples/heterophilous.py --data FOLDER        # FOLDER/{minesweeper,...}.npz
    python examples/heterophilous.py --quick              # a small grid, seconds

Writes a row a run to heterophilous.csv and the tables to heterophilous_tables.md in --output;
what the CSV has already is not run again. What came out, and what was chosen on which nodes, is in
`examples/results/heterophilous.md`.
"""

import argparse
import itertools
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch.nn import BatchNorm1d, LayerNorm, Linear, Module, ModuleList
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv
from torch_geometric.utils import grid, remove_self_loops, to_undirected

from jsem_pyg.evaluation import paired_comparisons
from jsem_pyg.graph import GraphStructure
from jsem_pyg.nn import AnisotropicDiffusion, EndpointConductance

VARIANTS = ("none", "gcn", "open", "ends", "signed")


@dataclass(frozen=True)
class Settings:
    """How a network is made and trained; the same for all its variants."""

    blocks: int = 3
    hidden: int = 32
    input_dropout: float = 0.0
    dropout: float = 0.1
    lr: float = 0.01
    epochs: int = 100


# Chosen on validation nodes; see examples/results/heterophilous.md.
_MANY_FEATURES = Settings(blocks=2, input_dropout=0.5, dropout=0.5, lr=0.003, epochs=30)
SETTINGS = {
    "minesweeper": Settings(blocks=5, dropout=0.2, epochs=150),
    "tolokers": Settings(),
    "actor": _MANY_FEATURES,
    "chameleon_filtered": _MANY_FEATURES,
    "squirrel_filtered": _MANY_FEATURES,
}

# The best figures of Platonov et al.'s tables.
PUBLISHED = {
    "minesweeper": {"GCN": 89.75, "GAT-sep": 93.91},
    "tolokers": {"GCN": 83.64, "GAT-sep": 83.78},
    "chameleon_filtered": {"GCN": 40.89, "FAGCN": 41.90},
    "squirrel_filtered": {"GCN": 39.47, "FAGCN": 41.08},
}
TIMES = [0.5, 2.0]
NUM_LOOKS = 20  # at the validation nodes, in a training
PARTS = ("train", "val", "test")
RUN = ["seed", "dataset", "method"]  # what a row is of; the seed is the split


class Bands(Module):
    """What a short time of heat takes from a node, what a longer one does, and what is left.

    They add up to the node's own features, and are far apart in size, so the block scales them.
    """

    def __init__(self, variant: str, channels: int) -> None:
        super().__init__()
        conductance = EndpointConductance(channels, 8, variant == "signed", rate=3.0)
        self.diffusion = AnisotropicDiffusion(
            edge_dim=0,
            t=TIMES,
            conductance="sigmoid" if variant == "open" else conductance,
            tol=1e-3,  # a network does not notice
        )

    def forward(self, x: Tensor, graph: GraphStructure) -> Tensor:
        smooth = self.diffusion(x, graph)
        return torch.cat([x, smooth], dim=-1) - F.pad(smooth, (0, x.size(1)))


class Beside(Module):
    """A node's own features, and those that `GCNConv` makes of the nodes around it."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = GCNConv(channels, channels)

    def forward(self, x: Tensor, graph: Tensor) -> Tensor:
        return torch.cat([x, self.conv(x, graph)], dim=-1)


class Block(Module):
    """Normalise, look around, a perceptron, and a residual."""

    def __init__(self, variant: str, channels: int, dropout: float) -> None:
        super().__init__()
        self.norm = LayerNorm(channels)
        self.around: Module | None = None
        width = channels
        if variant == "gcn":
            self.around, width = Beside(channels), 2 * channels
        elif variant != "none":
            self.around, width = Bands(variant, channels), (len(TIMES) + 1) * channels
        self.scale = BatchNorm1d(width)
        self.mix = Linear(width, channels)
        self.out = Linear(channels, channels)
        self.dropout = dropout

    def forward(self, h: Tensor, graph: Tensor | GraphStructure) -> Tensor:
        x = self.norm(h)
        x = x if self.around is None else self.around(x, graph)
        out = self.out(F.gelu(self.mix(self.scale(x))))
        return h + F.dropout(out, self.dropout, self.training)


class Net(Module):
    def __init__(self, variant: str, in_channels: int, out_channels: int, how: Settings) -> None:
        super().__init__()
        self.how = how
        self.lin = Linear(in_channels, how.hidden)
        blocks = (Block(variant, how.hidden, how.dropout) for _ in range(how.blocks))
        self.blocks = ModuleList(blocks)
        self.norm = LayerNorm(how.hidden)
        self.out = Linear(how.hidden, out_channels)

    def forward(self, x: Tensor, graph: Tensor | GraphStructure) -> Tensor:
        x = F.dropout(x, self.how.input_dropout, self.training)
        h = F.gelu(F.dropout(self.lin(x), self.how.dropout, self.training))
        for block in self.blocks:
            h = block(h, graph)
        return self.out(self.norm(h))


def load(name: str, folder: Path) -> Data:
    """A graph with both directions of every edge, and masks [N, splits]."""
    with np.load(folder / f"{name}.npz") as file:
        arrays = {key: torch.from_numpy(file[key]) for key in file.files}
    x, edges = arrays["node_features"].float(), arrays["edges"].t().long()
    edge_index = to_undirected(remove_self_loops(edges)[0], num_nodes=len(x))
    masks = {f"{part}_mask": arrays[f"{part}_masks"].bool().t() for part in PARTS}
    return Data(x=x, edge_index=edge_index, y=arrays["node_labels"].long(), **masks)


def small_grid(side: int = 16) -> Data:
    """Minesweeper on a small board: a fifth are mines, half of the cells tell how many are near."""
    seed_everything(0)
    edge_index = grid(side, side)[0]
    edge_index = to_undirected(remove_self_loops(edge_index)[0])
    mines = torch.rand(side * side) < 0.2
    near = torch.zeros(side * side).index_add(0, edge_index[1], mines[edge_index[0]].float())
    is_told = (torch.rand(side * side) < 0.5) & ~mines
    x = torch.stack([near * is_told, is_told.float()], dim=1)
    part = torch.rand(side * side, 2).mul(4).long()  # two splits: a half, a quarter, a quarter
    masks = {"train_mask": part < 2, "val_mask": part == 2, "test_mask": part == 3}
    return Data(x=x, edge_index=edge_index, y=mines.long(), **masks)


def score(logits: Tensor, data: Data, mask: Tensor) -> float:
    """ROC AUC of two classes, accuracy of more, in per cent."""
    logits, y = logits[mask], data.y[mask]
    if logits.size(1) == 2:
        return 100 * float(roc_auc_score(y, logits[:, 1] - logits[:, 0]))
    return 100 * float((logits.argmax(-1) == y).float().mean())


def run(data: Data, graph: GraphStructure, variant: str, split: int, how: Settings) -> dict:
    """Train on one split; the test score is that of the best epoch on the validation nodes."""
    seed_everything(split)
    model = Net(variant, data.num_features, int(data.y.max()) + 1, how)
    edges = data.edge_index if variant == "gcn" else graph
    train, val, test = (data[f"{part}_mask"][:, split] for part in PARTS)
    optimizer = torch.optim.AdamW(model.parameters(), how.lr, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, how.lr, total_steps=how.epochs, pct_start=0.15
    )
    best: dict[str, float] = {"val": -1.0}
    start = time.process_time()
    for epoch in range(1, how.epochs + 1):
        model.train()
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data.x, edges)[train], data.y[train])
        loss.backward()
        optimizer.step()
        schedule.step()
        if epoch % max(how.epochs // NUM_LOOKS, 1) == 0 or epoch == how.epochs:
            model.eval()
            with torch.no_grad():
                logits = model(data.x, edges)
            now = score(logits, data, val)
            if now > best["val"]:
                best = {"val": now, "test": score(logits, data, test), "epoch": epoch}
    return best | {"seconds": time.process_time() - start}


def run_missing(path: Path, sets: dict[str, Data], variants: list[str], splits: int) -> None:
    """Run what the file lacks, split by split, so that variants can be paired at any time."""
    graphs = {name: GraphStructure(data.edge_index, data.num_nodes) for name, data in sets.items()}
    jobs = itertools.product(range(splits), sets, variants)
    done = set(current(read(path))[RUN].itertuples(index=False, name=None))
    missing = [job for job in jobs if job not in done]
    for position, (split, name, variant) in enumerate(missing):
        result = run(sets[name], graphs[name], variant, split, SETTINGS[name])
        key = dict(zip(RUN, (split, name, variant), strict=True))
        append(path, key | asdict(SETTINGS[name]) | result)
        scores = f"{result['test']:.2f} in the test, {result['val']:.2f} in validation"
        left = minutes_left(read(path), missing[position + 1 :])
        print(f"{name}, {variant}, split {split}: {scores}; {left}", flush=True)


def current(runs: pd.DataFrame) -> pd.DataFrame:
    """The rows of today's settings."""
    is_current = [
        row["dataset"] in SETTINGS and asdict(SETTINGS[row["dataset"]]).items() <= row.items()
        for row in runs.to_dict("records")
    ]
    return runs[pd.Series(is_current, index=runs.index, dtype=bool)]


def minutes_left(runs: pd.DataFrame, jobs: list[tuple[int, str, str]]) -> str:
    """How long the other runs take, by the mean of those like them."""
    seconds = runs.groupby(["dataset", "method"])["seconds"].mean()
    known = [seconds[name, variant] for _, name, variant in jobs if (name, variant) in seconds]
    more = f" and {len(jobs) - len(known)} runs more" if len(known) < len(jobs) else ""
    return f"{sum(known) / 60:.0f} processor minutes{more} to go"


def read(path: Path) -> pd.DataFrame:
    return pd.read_csv(path) if path.exists() else pd.DataFrame(columns=RUN)


def append(path: Path, row: dict) -> None:
    """Write the file anew with one row more, whole or not at all."""
    rows = read(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    pd.DataFrame([*rows.to_dict("records"), row]).to_csv(temporary, index=False)
    os.replace(temporary, path)


def summarize(runs: pd.DataFrame) -> str:
    """Two tables in Markdown: scores, and differences to all edges open, paired by split."""
    names = list(runs["dataset"].unique())
    rows = {}
    for variant, part in runs.groupby("method", sort=False):
        test = part.groupby("dataset")["test"].agg(["mean", "std", "size"])
        rows[variant] = {n: f"{m:.2f} ± {s:.2f} ({k:.0f})" for n, m, s, k in test.itertuples()}
    for name in names:
        for model, value in PUBLISHED.get(name, {}).items():
            rows.setdefault(f"{model}, published", {})[name] = f"{value:.2f}"
    text = as_markdown("test, mean ± std (splits)", names, rows)
    pairs = with_pairs(runs)
    if len(pairs):
        tests = paired_comparisons(pairs, "open", score="test")
        rows = {variant: {} for variant in tests["method"]}
        for each in tests.itertuples():
            rows[each.method][each.dataset] = f"{each.difference:+.2f} (p = {each.p_holm:.2g})"
        text += "\n" + as_markdown("less `open`, paired t, Holm", names, rows)
    return text


def with_pairs(runs: pd.DataFrame) -> pd.DataFrame:
    """The rows of variants that share two splits with `open` at least."""
    splits = runs.groupby(["dataset", "method"])["seed"].agg(set)

    def is_paired(dataset: str, method: str) -> bool:
        both = splits.get((dataset, "open"), set()) & splits[dataset, method]
        return len(both) > 1

    paired = [is_paired(*names) for names in zip(runs["dataset"], runs["method"], strict=True)]
    return runs[pd.Series(paired, index=runs.index, dtype=bool)]


def as_markdown(corner: str, names: list[str], rows: dict[str, dict[str, str]]) -> str:
    lines = [f"| {corner} | {' | '.join(names)} |", "| --- " * (len(names) + 1) + "|"]
    lines += [
        f"| {row} | {' | '.join(cells.get(name, '') for name in names)} |"
        for row, cells in rows.items()
    ]
    return "\n".join(lines) + "\n"


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of the five .npz files")
    parser.add_argument("--sets", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=list(VARIANTS))
    parser.add_argument("--splits", type=int, default=10, help="splits 0 .. n - 1")
    parser.add_argument("--output", type=Path, default=Path("output/heterophilous"))
    parser.add_argument("--quick", action="store_true", help="a small grid, two splits, six epochs")
    args = parser.parse_args(argv)
    if args.data is None and not args.quick:
        parser.error("Expected --data FOLDER, or --quick.")
    return args


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    path = args.output / "heterophilous.csv"
    if args.quick:
        SETTINGS["grid"] = Settings(blocks=2, hidden=8, epochs=6)
        run_missing(path, {"grid": small_grid()}, args.variants, 2)
    else:
        sets = {name: load(name, args.data) for name in args.sets}
        run_missing(path, sets, args.variants, args.splits)
    runs = current(read(path))
    text = summarize(runs)
    (args.output / "heterophilous_tables.md").write_text(text)
    print(text)
    return runs


if __name__ == "__main__":
    main()
