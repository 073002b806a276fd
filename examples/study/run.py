"""Does learning the conductance win, and where? The unsupervised study, from data to figure.

    python examples/study/run.py --data FOLDER            # everything, hours on a CPU
    python examples/study/run.py --data FOLDER --sets 20newsgroups --seeds 5
    python examples/study/run.py --quick                  # some digits, seconds

FOLDER holds 20newsgroups_train_minilm.npz, agnews8k_minilm.npz, stackoverflow8k_minilm.npz (arrays
x, y, target_names) and planetoid/{Cora,CiteSeer}/raw. What runs.csv in --output has already is not
run again: delete it, or give another folder, to start afresh. Scores are of k-means with the true
number of classes; labels are seen by the scores alone. `methods.py` says where each hyper-parameter
comes from.
"""

import argparse
from functools import partial

import pandas as pd
import runner
from methods import make_methods
from report import write_report
from runner import Table
from scoring import clustering_table

FILE = "runs.csv"
SAME_RULE = ["heat, time by modularity", "PPR, alpha by modularity"]  # three seeds
TEN_SEEDS = ["heat", "UMAP", "self-training", "isotropic self-training"]  # five of the others


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = runner.make_parser(__doc__, seeds=None)
    parser.add_argument("--methods", nargs="+", choices=list(make_methods()))
    return runner.parse(parser, argv)


def plan(args: argparse.Namespace) -> list[Table]:
    methods = make_methods(epochs=3, umap_epochs=20) if args.quick else make_methods()
    methods = {name: methods[name] for name in args.methods or methods}
    wanted = runner.keys(dataset=args.sets, method=methods, seed=range(args.seeds or 10))
    if args.seeds is None:
        wanted = [key for key in wanted if key["seed"] < 5 or key["method"] in TEN_SEEDS]
        wanted = [key for key in wanted if key["seed"] < 3 or key["method"] not in SAME_RULE]
    return [clustering_table(args.output / FILE, wanted, methods)]


def report(args: argparse.Namespace) -> pd.DataFrame:
    """Write tables and figures from the rows, and return these."""
    runs = runner.read(args.output / FILE)
    print(write_report(runs, args.output))
    return runs


main = partial(runner.run, parse_args, plan, report)

if __name__ == "__main__":
    main()
