"""The README as a package index shows it, where links to files of this repository lead nowhere.

All the rest is in pyproject.toml.
"""

import re
from pathlib import Path

from setuptools import setup

text = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
text = re.sub(r"^!\[.*?\]\((?!https?:).*?\)\n+", "", text, flags=re.MULTILINE)
text = re.sub(r"\[([^\]]+)\]\((?!https?:)([^)]+)\)", r"\1 (`\2`)", text)
setup(long_description=text, long_description_content_type="text/markdown")
