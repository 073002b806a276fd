"""The whole study by one command, which goes on where it stopped.

    OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python examples/study/everything.py --data FOLDER
    python examples/study/everything.py --data FOLDER --parts "few labels" calibration
    python examples/study/everything.py --quick                      # some digits

Kill it whenever you like: rows that are there are not run again. Every part is a script of its own,
with options of its own.
"""

import argparse
from types import ModuleType

import ablations
import calibration
import few_labels
import nodes
import num_classes
import run

PARTS: dict[str, ModuleType] = {
    "study": run,
    "ablations": ablations,
    "few labels": few_labels,
    "number of clusters": num_classes,
    "calibration": calibration,
    "nodes with features and edges": nodes,
}


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    args, given = parser.parse_known_args(argv)  # each part reads --data, --output and --quick
    for name in args.parts:
        print(f"{name}:", flush=True)
        PARTS[name].main(given)


if __name__ == "__main__":
    main()
