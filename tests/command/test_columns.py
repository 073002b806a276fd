import numpy as np
import pandas as pd
import pytest
from command.command_cases import documents

from jsem_pyg.command.columns import Choice, as_numbers, choose_columns, kind_of
from jsem_pyg.command.content import read_content, read_labels

TEXTS, TOPICS = documents()
N = len(TEXTS)
NUMBERS = [str(i * i) for i in range(N)]


def choose(points=(), texts=(), labels=None, **columns):
    return choose_columns(pd.DataFrame(columns), points, texts, labels)


def test_a_column_that_is_called_text_is_taken():
    chosen = choose(title=TEXTS, Text=["x"] * N)
    assert chosen == (["Text"], ["Text"], "texts", True)


def test_sentences_are_joined_and_names_left_out():
    chosen = choose(id=NUMBERS, title=TEXTS, topic=TOPICS, body=TEXTS)
    assert chosen.points == ["title", "body"]
    content = read_content(
        pd.DataFrame({"a": ["x y", "", None, 1.5, "x y"], "b": ["z", "w", "", "v", "z"]}),
        choose(("a", "b"), a=["x y"], b=["z"]),
    )
    assert content.texts == ["x y z", "w", "1.5 v"]
    assert content.point.tolist() == [0, 1, -1, 2, 0]
    assert content.first_row.tolist() == [0, 1, 3]


def test_labels_are_never_guessed_for_text():
    assert choose(text=TEXTS, body=TEXTS, labels="text").points == ["body"]
    with pytest.raises(ValueError, match="not to be among what is clustered"):
        choose(("text",), text=TEXTS, labels="text")


@pytest.mark.parametrize("named", [{"points": ("a", "a")}, {"points": ("a",), "texts": ("b", "b")}])
def test_a_column_is_not_counted_twice(named):
    with pytest.raises(ValueError, match=r"Expected each column once \(got '[ab]' twice\)"):
        choose(a=NUMBERS, b=TEXTS, **named)


def test_numbers_are_a_vector_but_for_row_numbers():
    more = {"Unnamed: 0": [str(i) for i in range(N)], "species": TOPICS}
    assert choose(a=NUMBERS, b=NUMBERS, **more).points == ["a", "b"]
    assert choose(a=NUMBERS, **more).points == ["species"]  # a single number tells too little


@pytest.mark.parametrize("cell", ["n/a", "nan", "1,5", "5%"])
def test_a_column_that_is_text_by_a_cell_is_named(cell, caplog):
    odd = ["", *NUMBERS[1:5], cell, *NUMBERS[6:]]
    chosen = choose(a=NUMBERS, b=NUMBERS, odd=odd, place=TOPICS)
    assert chosen.points == ["a", "b"]
    said = (
        f"'odd' is taken for text: 1 of its {N - 1} cells are no numbers (the first is '{cell}', "
    )
    assert f"{said}in row 5, counted from 0)" in caplog.text
    assert caplog.text.count("is taken for text") == 1
    caplog.clear()
    assert choose(("a", "odd"), a=NUMBERS, b=NUMBERS, odd=odd).kind == "texts"
    assert said in caplog.text
    caplog.clear()
    choose(text=TEXTS, odd=odd)
    choose(("a", "b"), a=NUMBERS, b=NUMBERS, odd=odd)
    assert caplog.text == ""  # where it is not clustered


def test_a_truth_among_numbers_is_named(caplog):
    choose(odd=[*NUMBERS[1:], True])
    assert f"1 of its {N} cells are no numbers (the first is True, in row {N - 1}," in caplog.text


def test_commas_in_numbers_are_named(caplog):
    chosen = choose(a=NUMBERS, b=NUMBERS, odd=[f"{number},5" for number in NUMBERS])
    assert chosen.points == ["a", "b"]
    assert f"'odd' is taken for text: {N} of its {N} cells are no numbers" in caplog.text


def test_vectors_come_first_and_text_names_them():
    rows = list(np.ones((N, 3)))
    assert choose(text=TEXTS, v=rows) == (["v"], ["text"], "vectors", True)
    assert choose(topic=TOPICS, v=rows).texts == []
    assert choose((), ("topic",), topic=TOPICS, text=TEXTS, v=rows).texts == ["topic"]
    assert choose(v=rows, embeddings=rows).points == ["embeddings"]
    with pytest.raises(ValueError, match="one column of vectors .*'v', 'w'.*--column"):
        choose(v=rows, w=rows)


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        ([1, 2], "numbers"),
        (["1", "", "2e3"], "numbers"),
        (["1", "x"], "texts"),
        (["a", None, 3], "texts"),
        ([[1.0], None], "vectors"),
        ([None, ""], "empty"),
        ([True, False], "other"),
        ([{"a": 1}], "other"),
        (pd.to_datetime(["2026-01-01"]), "other"),
        (pd.Series(["a", "b"], dtype="category"), "texts"),
        (pd.Series([1, None], dtype="Int64"), "numbers"),
    ],
)
def test_kinds_of_columns(cells, kind):
    assert kind_of(pd.Series(cells)) == kind


@pytest.mark.parametrize(
    ("columns", "points", "match"),
    [
        ({"a": ["x"]}, ("b",), "a column 'b' .got a file with 'a'"),
        ({"body": ["x"]}, ("BODIES",), "Did you mean 'body'"),
        ({"a": [{}]}, (), r"To fix this, name yours by --column"),
        ({"a": [{}]}, ("a",), r"'a' \(other\)"),
        ({"a": [""]}, ("a",), r"'a' \(empty\)"),
        ({"a": [[1]], "b": ["x"]}, ("a", "b"), "vectors alone"),
    ],
)
def test_columns_of_no_use_are_named(columns, points, match):
    with pytest.raises(ValueError, match=match):
        choose(points, **columns)


def test_text_is_not_named_by_other_text():
    with pytest.raises(ValueError, match="no --text where text is clustered"):
        choose(("text",), ("topic",), text=TEXTS, topic=TOPICS)


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        (
            {"a": ["1", "", "2"], "b": ["1", "4", "2"]},
            "'a' to hold .* no number in 1 of 3 rows.*: 1",
        ),
        ({"v": [[1.0, 2.0], [np.nan, 1.0], [0.0, 0.0]]}, "finite numbers .* 1 of 3 rows"),
        (
            {"v": pd.array([1, None, 3], "Int64"), "w": [2, 1, 1]},
            "Expected 'v' to hold finite numbers .* 1 of 3 rows",
        ),
        ({"v": [[1.0, 2.0], [1.0], [0.0, 0.0]]}, "vectors of one length"),
        ({"v": [[np.inf, 2.0], [1.0, 1.0], [0.0, 0.0]]}, "infinite"),
        ({"v": list(np.eye(3).astype("M8[s]"))}, r"they are datetime64\[s\]"),
        ({"v": [[1.0, 2.0]] * 3}, "differ .got 3 that are the same"),
        ({"v": [[1.0, 2.0]]}, r"3 rows or more .got 1 in 1 rows"),
        ({"text": ["a b c d"] * 5}, "3 different documents or more .got 1 in 5 rows"),
        ({"text": ["a b c d", " ", ""]}, "3 different documents or more .got 1 in 3"),
        ({"text": []}, "a file with rows"),
    ],
)
def test_content_that_makes_no_clusters_is_refused(columns, match):
    table = pd.DataFrame(columns)
    with pytest.raises(ValueError, match=match):
        read_content(table, choose_columns(table))


@pytest.mark.parametrize("cell", [np.ones(2), [1.0], {"a": 1}])
def test_what_is_no_text_is_no_document(cell):
    """As where `predict` reads a file whose column has the name of the texts of the map."""
    table = pd.DataFrame({"note": ["a b", cell, "c"]})
    with pytest.raises(ValueError, match=f"the column 'note' .got a {type(cell).__name__} in row"):
        read_content(table, Choice(["note"], ["note"], "texts", guessed=False))


def test_labels_of_any_kind_and_missing_ones():
    codes, classes = read_labels(pd.DataFrame({"y": [2, "b", None, "", 2]}, dtype=object), "y")
    assert classes == ["2", "b"]
    assert codes.tolist() == [0, 1, -1, -1, 0]
    with pytest.raises(ValueError, match="labels in the column 'y' .got none in 2 rows"):
        read_labels(pd.DataFrame({"y": ["", None]}), "y")


@pytest.mark.parametrize("cells", [["1,5", "-2,25", "3"], ["1,000", "12,500", "7,000"]])
def test_numbers_with_commas_are_no_documents(cells):
    table = pd.DataFrame({"height": cells, "width": cells})
    with pytest.raises(ValueError, match=r"without commas \(got .* in 'height', 'width'\)"):
        choose_columns(table)
    assert choose_columns(table, ["height"]).kind == "texts"


@pytest.mark.parametrize("dtype", [object, "string"])
def test_texts_become_the_nearest_numbers(dtype):
    numbers = np.random.default_rng(0).normal(size=300) * 10.0 ** np.arange(-150, 150)
    cells = pd.Series([*map(repr, numbers.tolist()), "1_000", "x", None], dtype=dtype)
    np.testing.assert_array_equal(as_numbers(cells), [*numbers, np.nan, np.nan, np.nan])


def test_codes_that_look_like_huge_numbers():  # of which pandas makes crashes, or ten
    code = "1e2475976891"
    numbers = as_numbers(pd.Series([code, "1e4294967297", "1e-2147483648"]))
    assert numbers.tolist() == [np.inf, np.inf, 0.0]
    table = pd.DataFrame({code: [code, "5c0ffee"], "b": ["two words", code]})
    assert [kind_of(table[name]) for name in table] == ["texts", "texts"]


def test_numbers_and_texts_of_numbers_are_numbers():
    mixed = pd.Series([1, "2", 4.5, None, "8"], dtype=object)
    assert choose(("a",), a=mixed).kind == "numbers"
    assert kind_of(pd.Series([1, "2", True], dtype=object)) == "texts"
    assert kind_of(pd.Series(np.ones(3) * 1j)) == "other"


@pytest.mark.parametrize("name", ["Unnamed: 0", "index"])
def test_the_index_of_chosen_rows_is_no_measurement(name):
    rows = [str(3 * i + i % 2) for i in range(N)]
    assert choose(a=NUMBERS, b=NUMBERS, **{name: rows}).points == ["a", "b"]
    assert choose(a=NUMBERS, b=NUMBERS, **{name: rows[::-1]}).points == ["a", "b"]
    assert choose(a=NUMBERS, b=NUMBERS, **{name: ["1"] * N}).points == ["a", "b", name]


def test_numbers_differ_in_digits_that_they_have():
    ids = [2**60 + i for i in range(N)]
    choice = choose(("a",), a=ids)
    for each in (ids, list(map(str, ids)), np.array(ids, dtype=np.uint64)):
        with pytest.raises(ValueError, match="'a' to differ in the first 15 digits"):
            read_content(pd.DataFrame({"a": each}), choice)
    apart = [2**60 + (i << 20) for i in range(N)]
    assert read_content(pd.DataFrame({"a": apart}), choice).vectors.shape == (N, 1)
    one = read_content(pd.DataFrame({"a": ids[:1]}), choice, fewest=0)
    assert one.vectors.tolist() == [[float(ids[0])]]


def test_equal_numbers_are_one_label():
    labels = read_labels(
        pd.DataFrame({"y": pd.Series([1, 1.0, 2.5, "1", None], dtype=object)}), "y"
    )
    assert labels.classes == ["1", "2.5"]
    assert labels.codes.tolist() == [0, 0, 1, 0, -1]


def test_numbers_of_single_precision_are_written_as_they_are():
    """0.1 was 0.10000000149011612 in the report, and in what is embedded."""
    y = np.array([0.1, 3, np.nan], dtype=np.float32)
    table = pd.DataFrame({"y": y, "text": ["a cat", "the sea", " "]})
    assert read_labels(table, "y").classes == ["0.1", "3"]
    content = read_content(table, choose_columns(table, ["text", "y"]), fewest=0)
    assert content.texts == ["a cat 0.1", "the sea 3.0"]


def test_a_label_of_white_space_is_missing():
    labels = read_labels(pd.DataFrame({"y": ["  ", "a", " b", "\t"]}), "y")
    assert labels.codes.tolist() == [-1, 1, 0, -1]


def test_floats_are_taken_as_they_are():
    numbers = 2.0**60 + 256 * np.arange(N)  # which a larger number of digits could not tell apart
    found = read_content(pd.DataFrame({"a": numbers}), choose(("a",), a=numbers)).vectors
    assert found[:, 0].tolist() == numbers.tolist()
