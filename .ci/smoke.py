"""Import the installed package, as fast as it should be, try its command and the fifteen lines."""

import re
import subprocess
import sys
from pathlib import Path
from time import perf_counter

import numpy as np


def seconds(module: str) -> float:
    """Of an interpreter that imports it."""
    begin = perf_counter()
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
    return perf_counter() - begin


seconds("jsem_pyg")  # compiles the modules
ours, base = (min(seconds(name) for _ in range(3)) for name in ("jsem_pyg", "torch_geometric"))
print(f"import jsem_pyg: {ours:.2f} s, torch_geometric alone {base:.2f} s")
assert ours < 1.5 * base

# The command, of vectors, which asks for no extra.
script = Path(sys.executable).with_name("jsem-pyg")
x = np.random.default_rng(0).normal(size=(60, 4)) + 5 * np.eye(4)[np.arange(60) % 4]
np.save("points.npy", x)
subprocess.run([script, "map", "points.npy", "-k", "4", "--layout", "none"], check=True)
subprocess.run([script, "predict", "points-map", "points.npy", "-o", "out.csv"], check=True)
subprocess.run([script, "info"], check=True)

readme = Path(__file__).with_name("README.md")
fifteen_lines = re.findall(r"```python\n(.*?)```", readme.read_text(), re.DOTALL)[0]
exec(compile(fifteen_lines, str(readme), "exec"))
