"""Sixty columns of one table, as people save them: twenty are dirty, some look like others."""

import numpy as np
import pandas as pd
import pytest

from jsem_pyg._table_files import read_rows
from jsem_pyg.command.columns import choose_columns, read_column

N = 300
DRAW = np.random.default_rng(0)
Z = (50 + 5 * DRAW.normal(size=N)).round(2)
COUNT = DRAW.integers(1_000, 999_999, N)
SMALL = DRAW.integers(1, 1_000, N)
DAYS = pd.Series(pd.Timestamp("2011-03-01") + pd.to_timedelta(DRAW.integers(0, 3_000, N), unit="D"))
WORDS = "the bird was seen near a nest and it did not fly away"
PROSE = [" ".join(DRAW.choice(WORDS.split(), 9)) for _ in range(N)]


def some(values, mark, share, truth=np.nan):
    """Values with a mark in the place of some, and what these mean."""
    each = np.arange(N) * share % 1 >= 1 - share
    return np.where(each, mark, np.array(values).astype(str)), np.where(each, truth, values)


def one_of(*values):
    return DRAW.choice(np.array(values), N)


def written(form, values=Z):
    return [form.format(value) for value in values]


def german(values, thousands="."):
    return [f"{v:,.2f}".translate(str.maketrans(",.", f"{thousands},")) for v in values]


# name: the cells and, of numbers, what they mean; else what is done with the column.
NUMBERS = {
    "length": (Z, Z),
    "votes": (COUNT, COUNT),
    "change": (Z - 50, Z - 50),
    "tiny": (written("{:.3e}", Z * 1e-9), Z * 1e-9),
    "built": (1900 + SMALL % 100, 1900 + SMALL % 100),
    "survived": (SMALL % 2, SMALL % 2),
    "stars": (SMALL % 5 + 1, SMALL % 5 + 1),
    "post.test": (COUNT, COUNT),
    "Rank": (np.arange(N) + 1, np.arange(N) + 1),
    "smokes_no": (7 * np.arange(N)[::-1], 7 * np.arange(N)[::-1]),
    "price": (written("${:,}", COUNT), COUNT),
    "rent": (written("${},500", SMALL), SMALL * 1_000 + 500),
    "cost": (written("{:.0f} €", Z), Z.round()),
    "humidity": (written("{:.0f}%", Z), Z.round()),
    "comma": (german(Z), Z),
    "thousands": (german(COUNT), COUNT),
    "narrow": (german(COUNT, "\u202f"), COUNT),
    "swiss": ([f"{v:,}".replace(",", "'") for v in COUNT], COUNT),
    "wing": (written("{} cm"), Z),
    "loss": (np.where(SMALL > 500, written("({})"), written("{}")), np.where(SMALL > 500, -Z, Z)),
    "minus": (written("\u2212{}"), -Z),
    "footnote": some(Z, "51.5*", 0.1, 51.5),
    "revenue": (written("USD {}M"), Z * 1e6),
    "followers": ([f"{v / 1e3:.0f}k" if v > 999 else v for v in COUNT - 990], None),
    "spaced": (written("  {} "), Z),
    "stars beside": some(Z, "**", 0.3),
    "unknown": some(Z, "Unknown", 0.02),
    "no data": some(Z, "n.d.", 0.3),
    "withheld": some(COUNT, "(D)", 0.1),
    "dots": some(Z, "..", 0.2),
    "traces": some(Z, "<0.5", 0.2, 0.5),
    "typos": some(Z, "see page 5", 0.03),
    "sheet": some(Z, "#DIV/0!", 0.1),
}
OTHERS = {
    "species": (one_of("Adelie", "Gentoo", "Chinstrap"), "category"),
    "smokes": (one_of("yes", "no"), "category"),
    "vip": (one_of(True, False), "category"),
    "size": (one_of("S", "M", "L"), "category"),
    "answer": (one_of("Yes, I would tell my friends", "No, I would not do that"), "category"),
    "matchup": (one_of("Springfield Isotopes versus the Sharks", "Cubs versus Bears"), "category"),
    "age group": (one_of("18-29", "30-44", "45-60", "> 60"), "category"),
    "income": (one_of("$0 - $24,999", "$25,000 - $49,999", "$150,000+"), "category"),
    "place": (one_of("1st", "2nd", "3rd", "4th"), "category"),
    "season": (one_of("2017-18", "2018-19", "2019-20"), "category"),
    "class": (one_of("007", "012", "100"), "category"),
    "review": (PROSE, "text"),
    "day": (DAYS.dt.strftime("%Y-%m-%d"), "dates"),
    "us day": (DAYS.dt.strftime("%m/%d/%y"), "dates"),
    "eu day": (DAYS.dt.strftime("%d.%m.%Y"), "dates"),
    "long day": (DAYS.dt.strftime("%b %d, %Y %I:%M %p"), "dates"),
    "whole day": (DAYS.dt.strftime("%Y%m%d"), "dates"),
    "zip": (written("0{}", COUNT), "codes that begin with 0"),
    "ZIP code": (10_000 + COUNT % 80_000, "codes"),
    "Major_code": (DRAW.permutation(5_000)[:N] + 1_100, "codes"),
    "phone": (written("(555) 010-{}", COUNT), "made of numbers and signs"),
    "host": (written("10.0.{}.7", SMALL), "made of numbers and signs"),
    "customerId": (COUNT, "an identifier"),
    "subject": (SMALL, "an identifier"),
    "card": (4_000_000_000_000_000 + COUNT, "an identifier"),
    "line": (np.arange(N) + 7, "row numbers"),
    "sample": (np.arange(N) % 110, "row numbers"),  # of three groups
    "address": (written("{} Old Mill Road, Springfield, North Dakota", SMALL), "short texts"),
    "key": (written("k{:x}", COUNT * 7), "short texts"),
    "remark": (np.where(SMALL < 150, PROSE, ""), "missing in"),
    "region": (["Anvers"] * N, "the same in all rows"),
    "load": (one_of(*[f"{i} kg" for i in range(40)], *["700 g"] * 10), "82% numbers: --type"),
}  # fmt: skip


def test_sixty_columns_are_what_they_are_and_nothing_is_lost_in_silence(tmp_path):
    cells = {name: each for name, (each, _) in {**NUMBERS, **OTHERS}.items()}
    pd.DataFrame(cells).to_csv(tmp_path / "zoo.csv", index=False)
    table = read_rows(tmp_path / "zoo.csv")
    assert len(table.columns) > 60
    for name in table.columns:
        choice = choose_columns(table[list(dict.fromkeys(["length", "votes", name]))])
        found = {column.name: column for column in choice.points}.get(name)
        what = found.type if found else choice.left_out[name]
        if name not in NUMBERS:
            assert what.startswith(OTHERS[name][1]), name
            continue
        assert what == "number", name
        truth = NUMBERS[name][1]
        if truth is not None:
            np.testing.assert_allclose(found.values, truth, err_msg=name)
        lost = int(np.isnan(found.values).sum())
        assert (f"in {lost} rows missing" in found.note) == (lost > 0), name


@pytest.mark.parametrize(
    ("cells", "decimal", "numbers"),
    [
        (["1,234", "0,5"], "", [1.234, 0.5]),  # a group of thousands has three digits
        (["1,234", "12,345"], "", [1234, 12345]),
        (["1,234", "12,345"], ",", [1.234, 12.345]),  # --decimal
        (["1.234.567", "1.000"], "", [1234567, 1000]),
        (["1.234 €", "1.5 €"], "", [1.234, 1.5]),
        (["12,34,567.5", "3"], "", [1234567.5, 3]),
        (["5 kg", "3 lb", "4 kg"], "", [5, np.nan, 4]),
        (["22%", "5", ".5 %"], "", [22, 5, 0.5]),
        (["207", "208", "207b"], "", [207, 208, np.nan]),
        (["207", "208", "207 b"], "", [207, 208, 207]),
        (["1. Measured by hand", "208.", "2"], "", [np.nan, 208, 2]),
        (["20.7", "208", "2.7b"], "", [20.7, 208, 2.7]),
        (["5 ± 0.2", "6.5 ±.1", "7 ± 1 kg"], "", [5, 6.5, 7]),
        (["-$5", "($7)", "+3"], "", [-5, -7, 3]),
        (["1.2.3", "ten", "4-5"], "", [np.nan] * 3),
        (["5", "-inf", "[low]"], "", [5, np.nan, np.nan]),
        (["20:37", "2:05:17", "PT2H5M"], "", [74220, 7517, 7500]),
        (["6:07", "2:05:17", "PT2.5S"], ",", [22020, 7517, 2.5]),
        (["52°30\u2032N", "13°30'36\"W", "7.5 ° S"], "", [52.5, -13.51, -7.5]),
        (["2:35 PM", "12:05 a.m.", "5am", "12 pm"], "", [52500, 300, 18000, 43200]),
        (["1h 6m", "48 min", "2 hrs, 1 min", "1 day, 2:05:17"], "", [3960, 2880, 7260, 93917]),
        (["5m", "7 m"], "", [5, 7]),
        (["0:30 PM", "12:30 AM"], "", [45000, 1800]),
        (["2 m, 3 m", "5 m"], "", [np.nan, 5]),
        (["48 min", "1h 6m"], ".min", [48, np.nan]),
        (["20.2N", "S 7.5", "40 30 36 S", "200.5N"], "", [20.2, -7.5, -40.51, np.nan]),
        (["(7)", "12", "(c)"], "", [-7, 12, np.nan]),
    ],
)
def test_numbers_as_they_are_written(cells, decimal, numbers):
    column = read_column(pd.Series(cells), "number", decimal=decimal)
    np.testing.assert_allclose(column.values, numbers)
    assert read_column(pd.Series(["5 m/s", "7 m/s"])).note == "in m/s"
    for cell, number in zip(cells, numbers, strict=True):  # alone, as `predict` has it
        np.testing.assert_allclose(
            read_column(pd.Series([cell]), "number", column.form).values, [number]
        )
