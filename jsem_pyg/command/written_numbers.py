"""Read numbers as people write them: with units, separators, signs of doubt, marks for no number.

What separates decimals, and the unit, is decided for a column as a whole.
"""

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from .._table_files.first_rows import NO_NUMBER

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = 3  # marks that are quoted
_DOMINANT = 0.95  # of the cells with a separator that have to agree on what it is

_CURRENCY = (
    r"(?:US|CA|AU?|C|HK|NZ|R)?\$|[€£¥₹₩₽¢]|Rs\.?|Fr\.|kr|zł|USD|EUR|GBP|CHF|JPY|CNY|INR|SEK|NOK|DKK|"
    r"CAD|AUD|BRL|PLN|CZK|HUF|RUB|KRW|MXN|ZAR|SGD|HKD|NZD|TRY|ILS|THB"
)
_CELL = re.compile(
    rf"""(?P<about><=?|>=?|[≤≥~≈±]|ca\.)?\s*(?P<negative>\()?\s*
    (?P<sign>[-+])?\s*(?P<before>{_CURRENCY})?\s*(?P<minus>-)?
    (?P<body>\d[\d.,' ]*(?<![,' ])(?!(?<=\.)\s+[^\W\d_])|[.,]\d+)
    (?P<power>[eE][-+]?\d+)?\s*(?P<error>±\s*[\d.,]+\s*)?
    (?P<times>(?:k|K|M|Mio\.?|mn|bn|B|thousand|million|billion)(?![^\W\d_]))?\s*
    (?P<after>[%‰]|°\s?[CF]?|{_CURRENCY}|[^\W\d_][^\d,;:()\[\]]{{0,15}})?\s*
    (?P<more>\+|±\s*[\d.,]+)?\s*(?(negative)\))\s*(?:[*†‡]+|\[\w{{1,2}}\])?""",
    re.VERBOSE,
)
_TIME = re.compile(r"(\d+ days?,? )?\d{1,4}:[0-5]\d(:[0-5]\d(\.\d+)?)?|P[\dDTHM.]*\d[DHMS]")
_CLOCK = re.compile(r"(0?\d|1[0-2])((?::[0-5]\d){0,2}) ?([aApP])\.?[mM]\.?")
_PART = r"\d[\d.]* ?(d(ays?)?|h((ou)?rs?)?|m(in(ute)?s?)?|s(ec(ond)?s?)?)"  # of a duration
_SPAN = re.compile(rf"({_PART}[, ]*)*({_PART}|(?<=h)\d\d)")
_ANGLE = re.compile(
    r"""([NESW]?) ?(\d+\.?\d*)[° ]*(?:(\d+\.?\d*)[' ]+)?(?:(\d+\.?\d*)[" ]*)?([NESW]?)"""
)
_TIMES = {"k": 1e3, "t": 1e3, "m": 1e6, "b": 1e9}  # by the first letter
# Spaces, dashes, quotes and primes.
_ALIKE = str.maketrans("\u00a0\u2009\u202f\u2212\u2013\u2019\u2032\u2033", "   --''\"")


class Written(NamedTuple):
    """Holds the numbers of N cells, and how they were read."""

    values: np.ndarray  # [N], NaN where there is none
    share: float = 1.0  # of the cells that are neither empty nor a known mark for no number
    form: str = ""  # what stands before decimals, and the unit
    said: str = ""  # to whoever has the table


def read_numbers(cells: "pd.Series", form: str = "") -> Written:
    """Read the numbers of a column; `form` is that of cells which were read before."""
    import pandas as pd
    from pandas.api.types import is_numeric_dtype

    if is_numeric_dtype(cells):
        return Written(cells.to_numpy(float, na_value=np.nan))
    codes, found = pd.factorize(cells.astype(object).map(str, "ignore"))
    counts = np.bincount(codes[codes >= 0], minlength=len(found))
    texts = _in_one_unit([text.translate(_ALIKE).strip() for text in found], form[1:])
    marked = np.array([NO_NUMBER.fullmatch(text) is not None for text in texts], bool)
    matches = [None if marked[i] else _CELL.fullmatch(text) for i, text in enumerate(texts)]
    of_body, of_unit, of_code = Counter[str](), Counter[str](), Counter[str]()
    for match, count in zip(matches, counts.tolist(), strict=True):
        if match is not None:
            of_body[match["body"]] += count
            of_unit[_unit(match)] += count
            of_code[_unit(match)] += count * (match[0][-2:-1].isdigit() and match["body"].isdigit())
    decimal = form[:1] or _decimal(of_body)
    unit = form[1:] or max(filter(None, of_unit), key=of_unit.__getitem__, default="")
    is_few = 2 * of_unit[unit] < of_unit.total() and of_code[unit] == of_unit[unit]
    if not form[1:] and unit.isalpha() and len(unit) == 1 and is_few:
        unit = " "  # 207b is a code, 207 b and 2.7b are none
    numbers = [_number(match, decimal, unit) for match in matches]
    values = np.append(np.array(numbers, float), np.nan)
    read = ~np.isnan(values[:-1])
    filled = int(counts[~marked].sum())
    said = [f"in {unit}"] if unit.strip() else []
    for mark in ",." if decimal == "," else ",":
        if any(mark in body for body in of_body):
            said.append(f"'{mark}' {'before decimals' if mark == decimal else 'between thousands'}")
    about = [bool(match and any(match.group("about", "error", "more"))) for match in matches]
    for which, what in ((about & read, "as the number in it"), (~read, "missing")):
        quoted = [i for i in np.argsort(-counts, kind="stable") if which[i] and texts[i]]
        if quoted:
            some = ", ".join(repr(found[i]) for i in quoted[:_SHOWN])
            rest = ", ..." if len(quoted) > _SHOWN else ""
            said.append(f"{some}{rest} in {counts[quoted].sum():,} rows {what}")
    share = float(counts[read].sum()) / filled if filled else 0.0
    return Written(values[codes], share, decimal + unit, "; ".join(said))


def _in_one_unit(texts: list[str], unit: str) -> list[str]:
    """Write times (2:05 PM, 2h 5m, PT2H5M) in seconds, and angles (52°31'N, 2.5 W) in degrees.

    5 m and 2.5 W are such beside others that are, or where the unit is known.
    """
    import pandas as pd

    units = {x: re.findall("([dhms])[a-z]*", x) for x in texts if _SPAN.fullmatch(x)}
    spans = {text for text, each in units.items() if len({*each}) == len(each)}  # no "2 m, 3 m"
    has_two = any(len(re.findall(r"\d[\d.]*", text)) > 1 for text in spans)
    are_spans = unit == "s" or (not unit and has_two)
    angles = {text: at for text in texts if (at := _ANGLE.fullmatch(text)) and at[1] + at[5]}
    sides = {at[1] + at[5] for text, at in angles.items() if "." in text or at[3]}
    are_angles = unit == "°" or (not unit and ({"N", "S"} <= sides or {"E", "W"} <= sides))

    def rewritten(text: str) -> str:
        time = pd.NaT
        if at := _CLOCK.fullmatch(text):
            hour = int(at[1]) % 12 + 12 * (at[3] in "pP")
            time = pd.to_timedelta(f"{hour}{(at[2] + ':00:00')[:6]}")
        elif (are_spans and text in spans) or _TIME.fullmatch(text):
            full = text + ":00" * (text.count(":") == 1) + "m" * bool(re.search(r"h\d\d$", text))
            time = pd.to_timedelta(re.sub("([dhms])[a-z]*,? ?", r"\1 ", full), errors="coerce")
        if not pd.isna(time):
            return f"{time.value}e-9 s"
        if (at := angles.get(text)) and (are_angles or "°" in text) and float(at[2]) <= 180:
            degrees = sum(float(at[i + 2] or 0) / 60**i for i in range(3))
            return f"{'-' * ((at[1] or at[5]) in 'SW')}{degrees * 1e9:.0f}e-9°"
        return text

    return list(map(rewritten, texts))


def _unit(match: re.Match[str]) -> str:
    """Return the unit of a cell; of one with a currency before and a word after, none is known."""
    both = [part.strip().rstrip(".") for part in (match["before"], match["after"]) if part]
    return re.sub(r"(?<=[^\W\d_]{2})s$", "", both[0]) if len(both) == 1 else " ".join(both)


def _decimal(bodies: Counter[str]) -> str:
    """Return what stands before decimals in most numbers: a point, or a comma."""
    last = Counter[str]()
    for body, count in bodies.items():
        if "." in body and "," in body:
            last[max(".,", key=body.rindex)] += count
    if last:
        return last.most_common(1)[0][0]

    def thousands(mark: str) -> tuple[bool, bool]:
        """Say whether the mark may divide thousands, and whether it has to."""
        having = {body: count for body, count in bodies.items() if mark in body}
        group = rf"[1-9]\d{{0,2}}({re.escape(mark)}\d{{2,3}})*{re.escape(mark)}\d{{3}}"
        fit = sum(count for body, count in having.items() if re.fullmatch(group, body))
        may = fit >= _DOMINANT * sum(having.values())
        return may, may and any(body.count(mark) > 1 for body in having)

    return "," if thousands(".")[1] or not thousands(",")[0] else "."


def _number(match: re.Match[str] | None, decimal: str, unit: str) -> float:
    """Return the number of a cell, NaN if it is none in this form."""
    if match is None or _unit(match) not in ("", unit):
        return np.nan
    mark = r"[,' ]" if decimal == "." else r"[.' ]"
    whole = rf"(\d{{1,3}}(?:{mark}\d{{2,3}})*{mark}\d{{3}}|\d*)(?:{re.escape(decimal)}(\d*))?"
    parts = re.fullmatch(whole, match["body"])
    if parts is None:
        return np.nan
    number = float(f"{re.sub(mark, '', parts[1])}.{parts[2] or ''}0{match['power'] or ''}")
    number *= _TIMES[match["times"][0].lower()] if match["times"] else 1
    return -number if match["negative"] or "-" in (match["sign"], match["minus"]) else number
