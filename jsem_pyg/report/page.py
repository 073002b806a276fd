"""Fill the page: the template, style and scripts of `assets/`, plotly.js and the content."""

import base64
import gzip
import json
import platform
from collections.abc import Mapping
from importlib.resources import files
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from .._checks import check_instance
from .._extras import PACKAGES, import_optional, version_of

SCRIPTS = ("payload", "colours", "traces", "map", "lists", "edges", "main")


class Table(NamedTuple):
    """Holds texts in rows."""

    columns: list[str]
    rows: list[list[str]]


def render(content: Mapping[str, Any], arrays: Mapping[str, np.ndarray], **shown: Any) -> str:
    """Fill `assets/page.html`: content and arrays are for its scripts, `shown` is what it shows."""
    jinja2 = import_optional("jinja2", "A report")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_asset("page.html")).render(
        **shown,
        versions=version_table(),
        block=encode(content, arrays),
        plotly=plotly_script(),
        style=_asset("style.css"),
        scripts="\n".join(_asset(f"{name}.js") for name in SCRIPTS),
    )


def plotly_script() -> str:
    """Return plotly.js, minified, which the package plotly brings along."""
    return str(import_optional("plotly.offline", "A report").get_plotlyjs())


def _asset(name: str) -> str:
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")


def encode(content: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    """Encode content and arrays as base64: no text of a user's can be taken for HTML in it.

    What is packed, by gzip: the length of a header (uint32, little-endian), the header, the arrays.
    The header is JSON: the content, and "arrays" with type, shape and start of each array.
    """
    places, parts, start = {}, [], 0
    for name, array in arrays.items():
        kind, shape = array.dtype.name, list(array.shape)
        places[name] = {"type": kind, "shape": shape, "start": start}
        parts.append(array.astype(array.dtype.newbyteorder("<")).tobytes())
        start += array.nbytes
    header = json.dumps({**content, "arrays": places}, allow_nan=False).encode("ascii")
    block = b"".join([len(header).to_bytes(4, "little"), header, *parts])
    return base64.b64encode(gzip.compress(block, compresslevel=6, mtime=0)).decode("ascii")


def score_table(scores: Any) -> Table | None:
    """Make a row for each method, or, of plain numbers, for each score; see :func:`.report`."""
    if scores is None:
        return None
    if hasattr(scores, "to_dict"):  # a pandas.DataFrame
        scores = scores.to_dict("index")
    check_instance("scores", scores, Mapping, "a pandas.DataFrame or a mapping")
    if not all(isinstance(row, Mapping) for row in scores.values()):
        scores = {name: {"value": value} for name, value in scores.items()}
    columns = list(dict.fromkeys(str(name) for row in scores.values() for name in row))
    rows = [
        [str(method), *(_text(row.get(name, "")) for name in columns)]
        for method, row in scores.items()
    ]
    return Table(["", *columns], rows)


def settings_table(settings: Any) -> Table | None:
    """Make a row for each setting."""
    if settings is None:
        return None
    check_instance("settings", settings, Mapping, "a mapping")
    return Table(["setting", "value"], [[str(name), str(each)] for name, each in settings.items()])


def version_table() -> Table:
    """List the versions of Python and of the installed packages that matter."""
    found = [["python", platform.python_version()]]
    found += [[name, version] for name in PACKAGES if (version := version_of(name)) is not None]
    return Table(["package", "version"], found)


def _text(value: Any) -> str:
    """Write a number, or a pair of a mean and its spread."""
    if isinstance(value, tuple) and len(value) == 2:
        mean, spread = map(_text, value)
        return f"{mean} ±\N{NO-BREAK SPACE}{spread}" if mean and spread else mean
    if value is None or value != value:  # a score that is missing
        return ""
    if isinstance(value, Integral) or not isinstance(value, Real):
        return str(value)
    number = float(value)
    return f"{number:.3f}" if abs(number) < 10 else f"{number:.3g}"
