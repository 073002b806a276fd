"""Which columns of real tables does `jsem-pyg map` take, and why not the others?

Prints a line for each column of the tables that some packages ship: what it was read as, and how,
or why it is left out. Those of the packages that are not installed are left out.

    python examples/columns_of_tables.py                # vega_datasets, statsmodels, ...
    python examples/columns_of_tables.py my/folder      # all tables in a folder
"""

import argparse
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from jsem_pyg._table_files import read_rows
from jsem_pyg.command.columns import choose_columns

FOLDERS = {
    "vega_datasets": "_data",
    "statsmodels": "datasets",
    "palmerpenguins": "data",
    "libpysal": "examples",
}
ENDINGS = (".csv", ".tsv", ".json", ".parquet", ".xlsx")


def folders() -> Iterator[Path]:
    """Yield the folders of the packages that are installed."""
    for package, folder in FOLDERS.items():
        if (found := find_spec(package)) is not None and found.origin is not None:
            yield Path(found.origin).parent / folder


def describe(path: Path) -> Iterator[str]:
    """Yield what was chosen of a table, and why."""
    try:
        table = read_rows(path)
        choice = choose_columns(table)
    except (ValueError, OSError) as error:
        yield f"{path.name}: {error}"
        return
    yield f"{path.name}: {len(table):,} rows, clustered is its {choice.kind}"
    for column in choice.points:
        yield f"  + {column.name}: {column.type} {column.note}".rstrip()
    for name, why in choice.left_out.items():
        yield f"  - {name}: {why}"


def main(argv: list[str] | None = None) -> None:
    """Print the columns of all tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", type=Path, nargs="*")
    for folder in parser.parse_args(argv).folders or folders():
        for path in sorted(each for each in folder.rglob("*") if each.suffix in ENDINGS):
            for line in describe(path):
                print(line)


if __name__ == "__main__":
    main()
