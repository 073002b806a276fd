import gzip
import logging

import pytest

from jsem_pyg.datasets.embedding_dataset import read_documents


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


def test_one_document_a_line_whatever_the_line_holds(tmp_path, caplog):
    text = "\ufeffén\r\n\r\nto\ftre\u2028fire\nfem"
    with caplog.at_level(logging.WARNING):
        documents = read_documents(write(tmp_path / "a.txt", text))
    assert documents.texts == ["én", "", "to\ftre\u2028fire", "fem"]
    assert documents.labels is None
    assert "1 of 4 documents are empty" in caplog.text


def test_a_text_file_must_hold_text(tmp_path):
    with pytest.raises(ValueError, match=r"a file with rows .*a\.txt', which is empty"):
        read_documents(write(tmp_path / "a.txt", ""))
    with pytest.raises(ValueError, match=r"b\.txt' to be text in utf-8"):
        read_documents(write(tmp_path / "b.txt", "é", "latin-1"))


def test_columns_are_joined(tmp_path):
    path = tmp_path / "a.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write('label,title,score,description\n1,A,0.5,"b, c"\n0,D,1,e\n')
    documents = read_documents(path, ["title", "description"])
    assert documents.texts == ["A b, c", "D e"]
    assert documents.labels.tolist() == [1, 0]


def test_columns_by_name_in_the_given_order(tmp_path):
    path = write(tmp_path / "a.csv", "a,b,kind\nx,007,sea\ny,008,sky\n")
    documents = read_documents(path, ("b", "a"), "kind")
    assert documents.texts == ["007 x", "008 y"]
    assert documents.labels.tolist() == ["sea", "sky"]
    assert read_documents(path, "b").texts == ["007", "008"]


def test_what_is_missing_is_an_empty_document_and_no_label(tmp_path):
    path = write(
        tmp_path / "a.jsonl", '{"text": "a", "label": 1}\n{"text": null, "label": 2}\n{}\n'
    )
    with pytest.raises(ValueError, match="got 1 of 3 empty"):
        read_documents(path)
    path.write_text(path.read_text().replace("{}", '{"label": 1}'))
    assert read_documents(path).texts == ["a", "", ""]
    assert read_documents(path).labels.tolist() == [1, 2, 1]


def test_labels_that_begin_with_zero_are_names(tmp_path):
    table = "text,label\na,01\nb,1\nc,2\n"
    assert read_documents(write(tmp_path / "a.csv", table)).labels.tolist() == ["01", "1", "2"]


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("a,b\nx,y\n", {"text_columns": "c"}, r"name columns .got \['c'\]"),
        ("label,n\n0,1\n", {}, r"got \['text'\]; .* has \['label', 'n'\]"),
        ("label,text\n0,a\n,b\n", {}, "got 1 of 2 empty"),
        ("text\n", {}, "at least one document"),
        ("", {}, "a file with rows .*which is empty"),
    ],
)
def test_bad_tables_are_refused(tmp_path, text, arguments, message):
    with pytest.raises(ValueError, match=message):
        read_documents(write(tmp_path / "a.csv", text), **arguments)
