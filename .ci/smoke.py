"""Import the installed package, as fast as it should be, and run the README's fifteen lines."""

import re
import subprocess
import sys
from pathlib import Path
from time import perf_counter


def seconds(module: str) -> float:
    """Of an interpreter that imports it."""
    begin = perf_counter()
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
    return perf_counter() - begin


seconds("jsem_pyg")  # compiles the modules
ours, base = (min(seconds(name) for _ in range(3)) for name in ("jsem_pyg", "torch_geometric"))
print(f"import jsem_pyg: {ours:.2f} s, torch_geometric alone {base:.2f} s")
assert ours < 1.5 * base

fifteen_lines = re.findall(r"```python\n(.*?)```", Path("README.md").read_text(), re.DOTALL)[0]
exec(compile(fifteen_lines, "README.md", "exec"))
