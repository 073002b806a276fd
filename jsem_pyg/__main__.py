"""``python -m jsem_pyg`` is the command `jsem-pyg`."""

from .command import main

if __name__ == "__main__":
    main(prog_name="python -m jsem_pyg")
