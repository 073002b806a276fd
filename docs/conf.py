"""Sphinx: see CONTRIBUTING.md and `bash .ci/docs`.

MyST-NB, because pages and notebooks are Markdown already and it shows notebooks from the outputs
that are saved in them, so that a build computes nothing. Furo for its plain dark and light pages.
Mathematics is drawn by a MathJax that is part of the site: it needs no network.
"""

import doctest
import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT), str(HERE / "_ext")]

import jsem_pyg  # noqa: E402

project = "jsem_pyg"
author = "The jsem_pyg developers"
copyright = "2026, the jsem_pyg developers. MIT licence"
version = release = jsem_pyg.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx-mathjax-offline",
    "repository_pages",
    "public_names",
]
exclude_patterns = ["_build", "_ext"]
templates_path = ["_templates"]
nitpicky = True

# Pages and notebooks
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 3
nb_execution_mode = "off"
# A log is for a terminal: the tests see to it that notebooks are committed without one.
nb_output_stderr = "remove-warn"

# The API, from the docstrings
default_role = "literal"  # `x` in a docstring is code
autosummary_generate = True
autosummary_ignore_module_all = False
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "inherited-members": True}
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 88
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_custom_sections = ["Shapes"]
napoleon_use_rtype = False
napoleon_attr_annotations = False

# Whatever is not ours has its own documentation, which an offline build cannot look up.
nitpick_ignore_regex = [
    ("py:.*", r"(torch|torch_geometric|torch_sparse|jax|numpy|np|scipy|sklearn|pandas|pd)(\..*)?"),
    ("py:class", r"(collections\.abc|os|pathlib|logging|typing)\..*|optional"),
    ("py:obj", r"(?!jsem_pyg).*"),  # PyG writes :obj: for code
    ("py:attr", r"(?!jsem_pyg).*"),  # attributes are described with their class
]
if os.environ.get("DOCS_ONLINE") == "1":
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "torch": ("https://docs.pytorch.org/docs/stable", None),
        "torch_geometric": ("https://pytorch-geometric.readthedocs.io/en/latest", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "scipy": ("https://docs.scipy.org/doc/scipy", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
        "pandas": ("https://pandas.pydata.org/docs", None),
    }

# Examples of the pages run; those of the docstrings run with the tests, so not once more here.
doctest_test_doctest_blocks = ""
doctest_default_flags = doctest.ELLIPSIS | doctest.DONT_ACCEPT_TRUE_FOR_1

# HTML
html_theme = "furo"
html_title = f"jsem_pyg {release}"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_show_sphinx = False
toc_object_entries_show_parents = "hide"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
