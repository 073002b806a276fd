"""``python -m jsem_pyg`` is the command `jsem-pyg`."""

import sys


def main() -> None:
    """Run the command, or say in a line which package it lacks."""
    try:
        from .command import main as command
    except ImportError as error:
        sys.exit(f"Error: {error}")
    command(prog_name="python -m jsem_pyg" if sys.argv[0].endswith("__main__.py") else "jsem-pyg")


if __name__ == "__main__":
    main()
