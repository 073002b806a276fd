import numpy as np
import pandas as pd
import pytest
from command.command_cases import documents

from jsem_pyg._table_files import Reading, read_rows
from jsem_pyg.command.columns import choose_columns, number_of_nines, read_column
from jsem_pyg.command.content import Encoding, read_documents, read_labels, read_vectors

TEXTS, TOPICS = documents()
N = len(TEXTS)
NUMBERS = [i * i for i in range(N)]
NAMES = [f"Name {i}" for i in range(N)]
DAYS = [f"2020-01-{1 + i % 28:02} 12:00" for i in range(N)]


def choose(points=(), labels=None, types=None, **columns):
    return choose_columns(pd.DataFrame(columns), points, labels, types)


def names(columns):
    return [column.name for column in columns]


def content(points=(), types=None, fewest=3, impute=False, **columns):
    choice = choose(points, types=types, **columns)
    if choice.kind == "texts":
        return read_documents(choice.points, fewest)
    return read_vectors(choice.points, choice.texts, fewest, impute)


def later(encoding, types, **columns):
    """The content of rows that come after those that were mapped."""
    read = [
        read_column(pd.Series(cells, name=name), types.get(name, "number"))
        for name, cells in columns.items()
    ]
    return read_vectors(read, fewest=0, encoding=encoding)


def test_text_is_a_column_of_that_name_or_all_sentences_joined():
    chosen = choose(title=TEXTS, Text=NAMES)
    assert names(chosen.points) == ["Text"]
    assert chosen.left_out == {"title": "text"}
    chosen = choose(id=NUMBERS, title=TEXTS, topic=TOPICS, body=TEXTS)
    assert names(chosen.points) == ["title", "body"]
    assert chosen.kind == "texts"
    assert chosen.left_out == {"id": "an identifier", "topic": "categories"}
    found = content(("a", "b"), a=["x y", "", None, 1.5, "x y"], b=["z", "w", "", "v", "z"])
    assert found.texts == ["x y z", "w", "1.5 v"]
    assert found.point.tolist() == [0, 1, -1, 2, 0]
    assert found.first_row.tolist() == [0, 1, 3]
    assert found.sizes.tolist() == [2, 1, 1]
    assert found.missing == {"the text": 1}


def test_labels_are_not_clustered():
    assert names(choose(text=TEXTS, body=TEXTS, labels="text").points) == ["body"]
    with pytest.raises(ValueError, match="labels not to be clustered"):
        choose(("text",), text=TEXTS, labels="text")


def test_a_table_is_its_numbers_and_categories_and_the_others_are_listed_with_the_reason():
    chosen = choose(
        customer_id=NUMBERS[::-1],
        row=[i + 7 for i in range(N)],
        age=NUMBERS,
        share=[i % 7 + 0.5 for i in range(N)],
        topic=TOPICS,
        vip=[True, False] * (N // 2),
        created=DAYS,
        name=NAMES,
        one=[3] * N,
        mostly=[1, *[None] * (N - 1)],
        tags=[["a"]] * N,
        humid=[i + 0.5 for i in range(N)],
        hour=[i % 14 for i in range(N)],
        **{"Unnamed: 0": NUMBERS},
    )
    assert names(chosen.points) == ["age", "share", "topic", "vip", "humid", "hour"]
    assert chosen.kind == "table"
    assert chosen.left_out == {
        "customer_id": "an identifier",
        "row": "row numbers: one more in each row",
        "created": "dates; --column takes them as numbers of days",
        "name": "short texts",
        "one": "the same in all rows",
        "mostly": f"missing in {N - 1} of {N} rows",
        "tags": "neither numbers nor texts, nor vectors of one length",
        "Unnamed: 0": "row numbers: one more in each row",
    }


def test_vectors_come_first_and_text_names_them():
    rows = list(np.ones((N, 3)))
    chosen = choose(text=TEXTS, v=rows)
    assert (names(chosen.points), names(chosen.texts)) == (["v"], ["text"])
    assert chosen.kind == "vectors"
    assert choose(name=NAMES, v=rows).texts == []
    assert names(choose(name=NAMES, v=rows, types={"name": "text"}).texts) == ["name"]
    assert names(choose(v=rows, embeddings=rows).points) == ["embeddings"]
    with pytest.raises(ValueError, match="one column of vectors .*'v', 'w'.*--column"):
        choose(v=rows, w=rows)


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ([1, 2], "number"),
        (["1", "x"], "short text"),
        ([[1.0], None], "vector"),
        ([[1.0], [1.0, 2.0]], "other"),
        ([None, None], "empty"),
        ([True, False, True, False], "category"),
        ([{"a": 1}], "other"),
        (["one two three four five"], "text"),
        (pd.to_datetime(["2026-01-01"]), "date"),
        (["2020-01-31", None, "2021-12-01T10:00:00Z"], "date"),
        (["10-K", "2020"], "short text"),
        (["P0DT2H21M15S", "P0DT1H20M10S"], "number"),
        (["P3", "P12"], "short text"),
        (pd.Series([1, 200], dtype="UInt8"), "number"),
        (pd.Series(["a", "b"] * 2, dtype="category"), "category"),
        (pd.Series([1, None], dtype="Int64"), "number"),
    ],
)
def test_types_of_columns(cells, kind):
    assert read_column(pd.Series(cells)).type == kind


@pytest.mark.parametrize(
    ("columns", "points", "match"),
    [
        ({"a": ["x"]}, ("b",), "a column 'b' .got a file with 'a'"),
        ({"a": [{}]}, (), r"To fix this, name yours by --column"),
        ({"a": [{}]}, ("a",), r"'a' \(other\)"),
        ({"at": ["20.2 N, 15.3 W", "1.5 S, 7.5 E"]}, (), "'at' .two numbers in each cell: divide"),
        ({"a": [None]}, ("a",), r"'a' \(empty\)"),
        ({"a": [[1]], "b": ["x"]}, ("a", "b"), "one of vectors"),
        (
            {"message": TEXTS, "n_items": NUMBERS},
            ("message", "n_items"),
            r"'message' \(text\), 'n_items' \(number\).*--type",
        ),
        ({"message": TEXTS, "at": DAYS}, ("message", "at"), "--type"),
        ({"v": list(np.eye(3).astype("M8[s]"))}, (), r"Expected a column of text or of vectors"),
    ],
)
def test_columns_of_no_use_are_named(columns, points, match):
    with pytest.raises(ValueError, match=match):
        choose(points, **columns)


def test_a_type_that_is_said_is_taken():
    columns = {"grade": ["1", "2", "x"] * (N // 3), "age": NUMBERS, "name": NAMES}
    chosen = choose(types={"name": "category"}, **columns)
    assert names(chosen.points) == ["grade", "age", "name"]
    found = content(("grade", "age"), types={"grade": "number"}, **columns)
    assert found.missing == {"grade": N // 3}
    assert choose(("age",), types={"age": "text"}, **columns).kind == "texts"


ROWS = "".join(f"{i * 7 % 11}.5,{i * i}\n" for i in range(20))


@pytest.mark.parametrize(
    ("name", "text", "option"),
    [
        ("odd.csv", f"a\n{ROWS.replace(',', ' : ')}", None),
        ("commas.txt", ROWS, {"delimiter": ",", "header": 0}),
    ],
)
def test_numbers_are_not_embedded_as_text(tmp_path, name, text, option):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(ValueError, match="To fix this"):
        choose_columns(read_rows(path))
    if option is not None:  # which says how to read it
        choice = choose_columns(read_rows(path, Reading(**option)))
        assert choice.kind == "table"
        assert len(read_vectors(choice.points).vectors) >= 18


def test_dates_are_numbers_of_days():
    dates = pd.Series(["1970-01-02", None, "1970-01-01T12:00Z", "x"])
    np.testing.assert_array_equal(read_column(dates, "date").values, [1, np.nan, 0.5, np.nan])
    moments = pd.Series(pd.to_datetime(["1970-01-03", None], utc=True))
    np.testing.assert_array_equal(read_column(moments).values, [2, np.nan])
    assert read_column(pd.Series(["01/02/1970", "31/01/1970", None])).form == "%d/%m/%Y"
    assert read_column(pd.Series(["01-Feb-70", "31-Jan-70"])).form == "%d-%b-%y"
    quarters = read_column(pd.Series(["1970Q1", "Q2 1970", "1970-Q3"] * 2)).values
    np.testing.assert_array_equal(quarters[:3], [0, 90, 181])
    assert read_column(pd.Series(["Q1", "Q2"] * 3)).type == "category"
    found = content(("at",), at=["31.01.1970", "01.02.1970", None, "05.02.1970"])
    assert found.vectors.ravel().tolist() == [30, 31, 35]
    assert found.missing == {"at": 1}


def test_what_other_columns_have_before_decimals_holds_for_all():
    columns = {"a": ["3,14", "2,5"], "n": ["1.234", "999"], "v": ["1.5", "2.5"]}
    assert [each.values[0] for each in choose(**columns).points] == [3.14, 1234, 1.5]
    assert names(choose(zip=[f"0{i}" for i in range(N)], n=NUMBERS).points) == ["n"]
    for cells, found in (([1, 2, -99.9, -99.9], (-99.9, 2)), ([20, 99, 99, 70], None)):
        assert number_of_nines(choose(a=cells).points[0]) == found


def test_categories_are_columns_of_ones():
    columns = {"c": ["b", "a", None, "a", "b", " a"], "n": [1, 2, 3, 4, 5, None]}
    found = content(types={"c": "category"}, **columns)
    assert found.names == ["c (missing)", "c a", "c b", "n"]
    assert found.is_category.tolist() == [True] * 3 + [False]
    assert found.vectors.tolist() == [
        [0, 0, 1, 1],
        [0, 1, 0, 2],
        [1, 0, 0, 3],
        [0, 1, 0, 4],
        [0, 0, 1, 5],
    ]
    assert found.missing == {"n": 1}
    again = later(found.encoding, {"c": "category"}, c=["never seen"], n=["7"])
    assert again.vectors.tolist() == [[0, 0, 0, 7]]


def test_a_category_counts_by_its_agreement_with_the_other_columns():
    rng = np.random.default_rng(0)
    group, noise = np.repeat([0, 1], 200), rng.integers(0, 3, 400)
    columns = {"n": 9 * group + rng.normal(size=400), "good": group, "none": noise}
    found = content(types={"good": "category", "none": "category"}, **columns)
    weights = found.weights(found.divisors("standard"))
    assert weights["good"] == 1
    assert weights["none"] < 0.1


def test_rows_that_lack_a_number_are_left_out_or_filled_by_the_median():
    columns = {"a": [1, None, 3, 8, np.inf], "b": [5, 6, None, 8, 9]}
    assert content(fewest=2, **columns).point.tolist() == [0, -1, -1, 1, -1]
    with pytest.raises(ValueError, match=r"3 rows without missing numbers or more .got 2 in 5"):
        content(**columns)
    filled = content(impute=True, **columns)
    assert filled.vectors.tolist() == [[1, 5], [3, 6], [3, 7], [8, 8], [3, 9]]
    assert filled.missing == {"a": 2, "b": 1}
    assert later(filled.encoding, {}, a=["?"], b=["1"]).vectors.tolist() == [[3, 1]]
    assert later(Encoding({}, {}, None), {}, a=["?"], b=["1"]).point.tolist() == [-1]


def test_a_vector_that_is_missing_or_not_finite_is_left_out():
    found = content(v=[[1.0, 2.0], None, [np.nan, 1.0], [0.0, 0.0], [np.inf, 1], [3, 4]])
    assert found.point.tolist() == [0, -1, -1, 1, -1, 2]
    assert found.missing == {"v": 3}


def test_labels_of_any_kind_and_missing_ones():
    codes, classes = read_labels(pd.Series([2, "b", None, " ", 2], dtype=object))
    assert classes == ["2", "b"]
    assert codes.tolist() == [0, 1, -1, -1, 0]
    with pytest.raises(ValueError, match="labels in 'y' .got none in 2 rows"):
        read_labels(pd.Series([" ", None], name="y"))
