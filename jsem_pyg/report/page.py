"""The page: its template, style and scripts from `assets/`, and plotly.js, all in one file."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from .._extras import import_optional

SCRIPTS = ("payload", "colours", "traces", "map", "lists", "edges", "charts", "main")


def render(block: str, shown: Mapping[str, Any]) -> str:
    """Fill the template.

    Args:
        block: what the scripts read, see :func:`~jsem_pyg.report.payload.pack`.
        shown: what the template itself shows, see `assets/page.html`; whatever is text in it is
            escaped.
    """
    environment, plotly = _environment(), plotly_script()
    template = environment.from_string(_asset("page.html"))
    scripts = "\n".join(_asset(f"{name}.js") for name in SCRIPTS)
    return template.render(
        **shown, block=block, plotly=plotly, style=_asset("style.css"), scripts=scripts
    )


@cache
def plotly_script() -> str:
    """plotly.js, minified, as the package plotly brings it along."""
    script: str = import_optional("plotly.offline", "A report").get_plotlyjs()
    return script


@cache
def _environment() -> Any:
    """Jinja, which escapes all text that is not marked as HTML."""
    jinja2 = import_optional("jinja2", "A report")
    return jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )


@cache
def _asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")
