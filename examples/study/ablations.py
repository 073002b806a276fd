"""What each ingredient adds: self-training with one thing changed, beside isotropic heat.

    python examples/study/ablations.py --data FOLDER       # digits, AG News and Cora, three seeds
    python examples/study/ablations.py --quick             # some digits, seconds

Rows that ablations.csv in --output has already are not run again; those of triplets are of an
earlier commit. Every method is a function as in `methods.py`, and sees no labels.
"""

import argparse
from functools import partial

import learned
import pandas as pd
import runner
import torch
from filters import heat
from methods import Method
from report import as_markdown, pivot
from runner import Table
from scoring import clustering_table
from torch import Tensor
from torch_geometric.data import Data

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.nn import DiffusionClassifier
from jsem_pyg.training import fit, select_time

FILE = "ablations.csv"


def self_training(
    data: Data,
    num_classes: int,
    seed: int,
    balance: float = 0.5,
    is_open: bool = False,
    own_time: bool = True,
    rounds: int = 4,
    views: int = 2,
) -> Tensor:
    """Self-training with one thing changed; the class of the highest probability."""
    t = select_time(data, seed=seed).t
    if views == 1:  # the classifier sees what has diffused already
        data.x = heat_diffusion(data.x, data.edge_index, data.edge_weight, t)
    conductance = learned.Open() if is_open else None
    sizes = (data.x.size(1), num_classes)
    model = DiffusionClassifier(*sizes, t=t, balance=balance, conductance=conductance)
    options = {} if own_time else {"times": None}
    fit(model, data, epochs=rounds, seed=seed, **options)
    with torch.no_grad():
        return model(data.x, data.edge_index, data.edge_weight).argmax(-1)


ABLATIONS = {
    "isotropic heat": Method(heat),
    "self-training": Method(self_training),
    "self-training, isotropic": Method(partial(self_training, is_open=True)),
    "self-training, one round": Method(partial(self_training, rounds=1)),
    "self-training, ten rounds": Method(partial(self_training, rounds=10)),
    "self-training, balance 0": Method(partial(self_training, balance=0.0)),
    "self-training, balance 1": Method(partial(self_training, balance=1.0)),
    "self-training, time by triplets": Method(partial(self_training, own_time=False)),
    "self-training, one view": Method(partial(self_training, views=1)),
}


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = runner.make_parser(__doc__, seeds=3, sets=["digits", "agnews", "cora"])
    return runner.parse(parser, argv)


def plan(args: argparse.Namespace) -> list[Table]:
    seeds = range(1 if args.quick else args.seeds)
    wanted = runner.keys(dataset=args.sets, method=ABLATIONS, seed=seeds)
    return [clustering_table(args.output / FILE, wanted, ABLATIONS)]


def report(args: argparse.Namespace) -> pd.DataFrame:
    """Write the table from the rows, and return these."""
    runs = runner.read(args.output / FILE)
    text = "# Ablations\n\nARI, mean over the seeds.\n\n"
    text += f"{as_markdown(pivot(runs, 'ari'), '.3f')}\n"
    (args.output / "ablations.md").write_text(text)
    print(text)
    return runs


main = partial(runner.run, parse_args, plan, report)

if __name__ == "__main__":
    main()
