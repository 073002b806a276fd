"""Try the installed package: "alone" as pip installs it, or the "command" with its two packages."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

SCRIPT = Path(sys.executable).with_name("jsem-pyg")


def seconds(code: str) -> float:
    """Of the processor, for an interpreter that runs a line of code."""
    before = os.times()
    subprocess.run([sys.executable, "-c", code], check=True)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])  # of children, by themselves and by the system


def try_alone() -> None:
    """Import it, as fast as it should be, and run the README's first lines on compiled kernels."""
    lines = "from jsem_pyg import nn, training, transforms", "import torch_geometric"
    seconds(lines[0])  # compiles the modules
    ours, base = map(min, zip(*([seconds(line) for line in lines] for _ in range(3)), strict=True))
    print(f"import of the layers: {ours:.2f} s, torch_geometric alone {base:.2f} s")
    assert ours < 1.5 * base
    refused = subprocess.run([SCRIPT, "info"], capture_output=True, text=True)
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
    assert 'pip install "jsem_pyg[command]"' in refused.stderr
    readme = Path(__file__).with_name("README.md")
    fifteen_lines = re.findall(r"```python\n(.*?)```", readme.read_text(), re.DOTALL)[0]
    exec(compile(fifteen_lines, str(readme), "exec"), {})
    import torch

    from jsem_pyg.kernels.table import CHEBYSHEV

    assert CHEBYSHEV.choose("auto", torch.device("cpu")) == "numba"


def try_command() -> None:
    """Map vectors, and ask what is missing."""
    x = np.random.default_rng(0).normal(size=(60, 4)) + 5 * np.eye(4)[np.arange(60) % 4]
    np.save("points.npy", x)
    subprocess.run([SCRIPT, "map", "points.npy", "-k", "4", "--layout", "none"], check=True)
    subprocess.run([SCRIPT, "predict", "points-map", "points.npy", "-o", "out.csv"], check=True)
    subprocess.run([SCRIPT, "info"], check=True)
    assert (
        seconds(f"import subprocess; subprocess.run([{str(SCRIPT)!r}, '--help'])") < 3
    )  # no torch


{"alone": try_alone, "command": try_command}[sys.argv[1]]()
