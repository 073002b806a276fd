import gzip
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from jsem_pyg._table_files import Reading, read_rows, suffix_of


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def read(name, content=None, **reading):
    path = Path(name)
    if content is not None:
        content = content.encode() if isinstance(content, str) else content
        path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return read_rows(path, Reading(**reading))


def test_a_line_is_a_document_and_an_empty_one_is_a_row(caplog):
    assert read("a.txt", "one\r\n\ntwo\x0cthree\n").text.tolist() == ["one", "", "two\x0cthree"]
    assert read("b.txt.gz", "\ufeffone").text.tolist() == ["one"]
    with pytest.raises(ValueError, match="'c.txt', which is empty"):
        read("c.txt", "")
    prose = "We came, saw and left.\nI came, and saw.\nYou came, at 5.\nDoe, John\n"
    assert len(read("d.txt", prose)) == 4
    assert caplog.text == ""
    for delimiter in (";", "\t", "|", ","):
        text = "Of me\nname,size\n" + "Oslo,5.5\n" * 9
        assert len(read("d.txt", text.replace(",", delimiter))) == 11
        assert f"Of a table, pass --delimiter {delimiter!r}." in caplog.text
    assert list(read("d.txt", "a\tb\n1\t2\n", delimiter=r"\t")) == ["a", "b"]
    table = read("d.txt", "1 2\n 3  4\n", delimiter=" ", header=0)
    assert table.to_numpy().tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_seen_in_the_header(delimiter):
    lines = ["id,n,text", '1,NA,"a; quoted | ""cell"", with\nall"', "", "2,,007", "3,?,b"]
    table = read("a.csv", "\n".join(line.replace(",", delimiter) for line in lines))
    assert list(table.columns) == ["id", "n", "text"]
    assert table["n"].isna().all()
    assert table["text"].tolist()[1:] == ["007", "b"]


def test_cells_are_what_pandas_reads():
    text = "id;size;code;big;is\n9007199254740993;1234,5;007;1e2147483648;True\n;-2;8;5;False\n"
    table = read("a.csv", text, decimal=",")
    assert table["id"].dropna().tolist() == [2**53 + 1]  # not as a float beside a missing one
    assert table["size"].tolist() == [1234.5, -2]
    assert table["code"].tolist() == ["007", "8"]
    assert table["is"].tolist() == [True, False]
    assert read("b.csv", "a;b\n3,14;1.234\n-2;999\n")["b"].tolist() == ["1.234", "999"]
    assert table["big"].tolist() == ["1e2147483648", "5"]  # at which pandas' own parser crashes
    assert read_rows(Path("a.csv"), strings=["big"])["code"].tolist() == ["007", "8"]


def test_a_first_line_may_be_a_row(caplog):
    table = read("a.csv", "1,2\n3,4\n", header=0)
    assert list(table.columns) == ["0", "1"]
    assert len(table) == 2
    assert caplog.text == ""
    assert len(read("a.csv", "1,2\n3,4\n")) == 1
    assert "If it is a row, pass --header 0." in caplog.text


@pytest.mark.parametrize(
    "above", ["Title,\n\n", "T, 1996,\n", "# x\n# a; b\n", "178;9\n", "# q\n// p;q;r;s\n"]
)
@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_lines_above_the_header_are_left_out_and_the_log_says_so(above, delimiter, caplog):
    lines = "a,b,c,d\n" + "1,x y,3,4\n" * 5
    table = read("a.csv", above + lines.replace(",", delimiter))
    assert list(table) == ["a", "b", "c", "d"]
    assert len(table) == 5
    assert "Left out, above the header" in caplog.text


def test_rows_that_may_be_cells_are_no_titles(caplog):
    assert len(read("a.csv", "1,,,\n" + "1,2,3,4\n" * 5, header=0)) == 6
    assert list(read("a.csv", "a,b,,\n" + "1,2,3,x\n" * 5))[:2] == ["a", "b"]
    assert list(read("a.csv", "a,a ,b\n1,2,3\n")) == ["a", "a ", "b"]  # no twins
    assert list(read("a.csv", "a,b\nx,n/a\n" + "y,2\n" * 5)) == ["a", "b"]
    assert len(read("a.csv", "a,b\nrefused,not asked\n" + "1,2\n" * 5)) == 6
    assert caplog.text == ""
    with pytest.raises(ValueError, match="longer than its header"):
        read("a.csv", "text\n" + "red, green, blue\n" * 3)


@pytest.mark.parametrize(
    ("header", "names"),
    [
        ("w,t,u,v\n,s,°C,%\n", ["w", "t", "u", "v"]),  # units
        ("# by me\nw,t,u,v\ntext,sec,,kg\n(a),(b),(c),(d)\n", ["w", "t", "u", "v"]),
        ("all,all,all,all\nw,t,u,v\n", ["w", "t", "u", "v"]),  # a title
        ("w,in,in,out\n,mean,std,mean\n", ["w", "in mean", "in std", "out mean"]),
        ("w,in,,out\n,2019,2020,2019\n", ["w", "in 2019", "in 2020", "out 2019"]),
        (",in,,out\nw,2019,2020,2019\n", ["w", "in 2019", "in 2020", "out 2019"]),
    ],
)
def test_several_rows_may_be_the_header(header, names):
    table = read("a.csv", header + "x,1,2.5,3\n" * 5)
    assert list(table) == names
    assert table.to_numpy().tolist() == [["x", 1, 2.5, 3]] * 5


def test_names_lose_quotes_and_blanks_and_commas_in_texts_make_no_header():
    assert list(read("a.csv", "'a','b c'\n1,'x, y'\n")) == ["a", "b c"]
    assert read("a.csv", 'a,"b\n c "\n1,2,\n')["b c"].tolist() == [2]
    assert read("a.csv", 'a, b , c\n1, "x, y", 3\n').iloc[0].tolist() == [1, "x, y", 3]
    for text in ("name\nDoe, John\nRoe, Jane\n", "text\none, two\na, b, c\n", "a,b\nr,1,2\n"):
        with pytest.raises(ValueError, match="take away lines above the header"):
            read("a.csv", text)


def test_marks_tell_encodings_and_others_have_to_be_said():
    text = "text\nMüller\n"
    assert read("a.csv", text.encode("utf-8-sig")).columns.tolist() == ["text"]
    assert read("a.csv", text.encode("utf-16")).text.tolist() == ["Müller"]
    with pytest.raises(ValueError, match=r"to be text in utf-8 \(byte 0xfc .*--encoding cp1252"):
        read("a.csv", text.encode("latin-1"))
    assert read("a.csv", encoding="latin-1").text.tolist() == ["Müller"]


def test_json_lines_are_objects():
    records = [{"text": "a", "n": 7}, {"text": None}, {"more": {"deep": {"x": [1, 2]}, "y": {}}}]
    table = read("a.jsonl", "\n".join(map(json.dumps, records)) + "\n\n")
    assert list(table.columns) == ["text", "n", "more.deep.x", "more.y"]
    assert table.n.tolist()[:1] == [7]
    with pytest.raises(ValueError, match=r"'a.jsonl' as a .jsonl file"):
        read("a.jsonl", "{}\n{a\n")
    with pytest.raises(ValueError, match="an object such as"):
        read("a.jsonl", "[1]\n")


def test_a_list_of_records_and_a_sheet(caplog):
    records = [{"a": 1.5, "code": "007"}, {"a": None, "code": "x"}]
    assert read("a.json", json.dumps(records)).a.tolist()[:1] == [1.5]
    with pytest.raises(ValueError, match="and others, in one list"):
        read("b.json", '{"a": {"0": 1}, "b": 2}')
    features = [{"properties": {"a": a}, "geometry": {}} for a in (1.5, None)]
    columns = {"a": [1.5, None]}, {"a": {"0": 1.5, "1": None}}
    for found in (*columns, {"features": features}, {"count": 2, "results": records}):
        assert read("c.geojson", json.dumps(found)).a.tolist()[:1] == [1.5]
    for cells in ([4, 5], [[4], [5, 6]]):  # in two columns, whose names are those of "split"
        assert len(read("c.json", json.dumps({"columns": ["a", "b"], "data": cells})).data) == 2
    frame = pd.DataFrame({"a": [1.5, None], "n": [0, 1], "c": ["x", "y"]})
    for form in ("split", "columns", "index", "table", "records"):
        table = read("c.json", frame.to_json(orient=form, lines=form == "records"))
        assert table[["a", "n", "c"]].iloc[0].tolist() == [1.5, 0, "x"]
    assert read("d.json", '{"all": [{"name": "water", "geometry": "bent"}]}').shape == (1, 2)
    uneven = {"rows": [[1], [2]], "names": ["a"]}
    for found in (uneven, {"f": [*features, 5]}, {"r": {"s": [{"a": 1}]}}, {"ada": {"a": 1}}):
        with pytest.raises(ValueError, match="and others, in one list"):
            read("e.json", json.dumps(found))
    pytest.importorskip("openpyxl")
    pd.DataFrame(records).to_excel("a.xlsx", index=False)
    assert read("a.xlsx").code.tolist() == ["007", "x"]
    assert read("a.xlsx", decimal=",").a.dtype == "Float64"  # a sheet has no decimal comma
    lines = pd.DataFrame([["A title", None, None], [None] * 3, list("abc"), [1, 2, 3]])
    with pd.ExcelWriter("c.xlsx") as book:
        lines[:1].to_excel(book, sheet_name="s")
        lines.to_excel(book, sheet_name="t", index=False, header=False)
    assert list(read("c.xlsx")) == ["a", "b", "c"]
    assert "all sheets but 't'" in caplog.text
    with pytest.raises(ValueError, match=r"'b.xlsx' as a .xlsx file"):
        read("b.xlsx", b"PK")


def test_arrays_become_columns_and_class_indices_names():
    x = np.arange(6.0).reshape(3, 2)
    np.save("a.npy", x)
    np.testing.assert_array_equal(np.stack(read("a.npy").x), x)
    np.savez("a.npz", embeddings=x, y=[0, 1, 0], target_names=["sea", "sky"], other=np.zeros(9))
    table = read("a.npz")
    assert list(table.columns) == ["x", "y"]
    assert table.y.tolist() == ["sea", "sky", "sea"]
    np.savez("a.npz", x, labels=["b", "a", "a"])
    assert read("a.npz").y.tolist() == ["b", "a", "a"]
    np.savez("a.npz", x=x, y=[0, 1, 2], classes=["sea", "sky"])
    with pytest.raises(ValueError, match=r"class indices in \[0, 2\) \(got 0 to 2"):
        read("a.npz")
    np.savez("a.npz", vectors=x)
    with pytest.raises(ValueError, match=r"one of \('x', 'embeddings', 'arr_0'\).*got vectors"):
        read("a.npz")
    np.save("a.npy", np.zeros(3))
    with pytest.raises(ValueError, match=r"points \[N, D\].*got \[\[3\]\]"):
        read("a.npy")
    np.save("a.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="a pickle.*, which are not read"):
        read("a.npy")


@pytest.mark.parametrize("name", ["a.xls", "a", "a.parquet.gz", "a.gz"])
def test_other_suffixes_are_named(name):
    with pytest.raises(ValueError, match=r"ends in one of \.txt, \.csv"):
        suffix_of(Path(name))


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("a.npy", bytes(range(256)), "'a.npy' as arrays: it holds objects .* or it is damaged"),
        ("a.csv", "a,b\n1,2\n1,2,3\n", "Expected 2 fields in line 3"),
        ("a.csv", "a:b\nx:2\n", "--delimiter ':'"),
        ("a.csv", "1 1:.5 7:2\n-1 3:1.5\n", "INDEX:NUMBER.*load_svmlight_file"),
        ("a.txt", "1 1:.5 7:2\n-1 3:1.5\n", "INDEX:NUMBER.*load_svmlight_file"),
        ("a.csv", b"a,b\n1.5,2.5\n1.5\x0099,2.5\n", "holds a null character"),
        ("a.npz", b"PK\x03\x04", "Could not read 'a.npz'"),
    ],
)
def test_broken_files_are_named(name, content, match):
    with pytest.raises(ValueError, match=match):
        read(name, content)


def test_a_cut_gzip_is_named():
    whole = gzip.compress(b"text\n" + bytes(range(97, 120)) * 99)
    Path("a.csv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"Could not read 'a\.csv\.gz'"):
        read("a.csv.gz")


def test_without_pandas_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"'pandas'.*jsem_pyg\[tables\]"):
        read("a.csv", "a,b\n1,2\n")


def test_white_space_divides_columns_where_nothing_else_does(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text('"a b" c\n"New York" 1 2.5\nOslo 3 NA\n', encoding="utf-8")  # as R writes
    found = read_rows(path)
    assert list(found.columns) == ["index", "a b", "c"]
    assert found["c"].isna().tolist() == [0, 1]
    alone = {head: f"{head}\n12 345.6\n1 234.0\n" for head in ("population", "gdp usd")}
    alone |= {"http://a": "http://a\nhttp://b\n", "a b": "a b\n1 2.5 # x\n2 3.5 # y\n"}
    alone |= {"12:05": "12:05\n1:15\n"}
    alone |= {"#id,n": "#id,n\n#1,5\n#2,7\n", "#at,n,m": "#at,n,m\nb,x,1800\nc,y,3\nd,z,9\n"}
    for header, text in {**alone, "1,2": " \n 1 2\n 3 4\n"}.items():
        path.write_text(text, encoding="utf-8")
        assert ",".join(read_rows(path).columns) == header
    for above in ("", "# ", "Measured in the lab\n", "# by me\nOne\n\n", "# x y\n"):
        path.write_text(f"{above}a b\n12 345\n1 23\n", encoding="utf-8")
        assert list(read_rows(path).columns) == ["a", "b"]
