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
import logging
from pathlib import Path

import pandas as pd
from data_sets import DATA_SETS, load
from methods import make_methods
from report import write_report
from runner import read, run_missing


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder of the data; digits need none")
    parser.add_argument("--sets", nargs="+", choices=list(DATA_SETS), default=list(DATA_SETS))
    parser.add_argument("--methods", nargs="+", choices=list(make_methods()))
    parser.add_argument("--seeds", type=int, default=10, help="seeds 0 .. n - 1")
    parser.add_argument("--output", type=Path, help="results/ beside this file, or output/study")
    parser.add_argument("--quick", action="store_true", help="a few digits, short training")
    args = parser.parse_args(argv)
    if args.output is None:  # a quick run never mixes with the published one
        args.output = Path("output/study") if args.quick else Path(__file__).parent / "results"
    return args


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    logging.getLogger("runner").setLevel(logging.INFO)
    methods = make_methods(epochs=3, umap_epochs=20) if args.quick else make_methods()
    if args.methods:
        methods = {name: methods[name] for name in args.methods}
    path = args.output / "runs.csv"
    for name in ["digits"] if args.quick else args.sets:
        study_set = load(name, args.data, args.quick)
        run_missing(path, name, study_set, methods, range(2 if args.quick else args.seeds))
    runs = read(path)
    print(write_report(runs, args.output))
    return runs


if __name__ == "__main__":
    main()
