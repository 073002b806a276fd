"""Print the lowest versions that pyproject.toml promises, "numpy>=1.26" as "numpy==1.26".

Those of the dependencies and of the extras that are named as arguments, without the extras that
these take in; torch's floor is left to the caller, since its wheels are large.
"""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
requirements = project["dependencies"]
for extra in sys.argv[1:]:
    requirements += project["optional-dependencies"][extra]
for requirement in requirements:
    floor = re.match(r"([\w-]+)>=([\d.]+)", requirement)
    if floor and floor[1] != "torch":
        print(f"{floor[1]}=={floor[2]}")
