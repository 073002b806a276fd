import logging
import sys
from io import StringIO
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd

from jsem_pyg.command.draw import draw_map
from jsem_pyg.command.result import MapResult, as_csv, assignments
from jsem_pyg.command.steps import Steps


def test_typical_documents_are_those_near_the_middle():
    x = np.array([[-3.0, 0.0], [9.0, 9.0], [0.0, 0.0], [3.0, 0.0], [0.0, 1.0], [0.0, 0.25]])
    content = SimpleNamespace(texts=["left", "other", "middle", "right", "above", " "])
    clusterer = SimpleNamespace(labels_=np.array([0, 1, 0, 0, 0, 0]), scale_=None)
    result = MapResult(content, x, clusterer, [], None, None, None)
    assert result.typical(0, 3) == ["middle", "above", "left"]
    content.texts = None
    assert result.typical(0, 3) == []


def test_a_counted_step_is_drawn_on_a_terminal(monkeypatch):
    shown = StringIO()
    shown.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", shown)
    with Steps().step("embedding", 2) as advance:
        advance(2)
    assert "/2" in shown.getvalue()


def test_rows_without_a_label_are_drawn_as_a_group_of_their_own(monkeypatch):
    given = {}
    take = lambda data, *_, **more: given.update(more, y=data.y)  # noqa: E731
    monkeypatch.setattr("jsem_pyg.report.report", take)
    result = SimpleNamespace(
        x=np.zeros((3, 2), np.float32),
        clusterer=None,
        level_names=[["sea", "cluster 1"]],
        scores=None,
        content=SimpleNamespace(
            point=np.array([0, 1, 2, 1]),
            first_row=np.arange(3),
            texts=None,
            sizes=np.array([1, 2, 1]),
        ),
        labels=SimpleNamespace(codes=np.array([1, -1, 0, -1]), classes=["x", "y"]),
        file=pd.DataFrame({"v": [[1.0], [2.0], [3.0], [2.0]]}),
    )
    draw_map(result, Path("map.html"), "title", "pca", 7, {"t": 2.0})
    settings = {"title": "title", "layout": "pca", "random_state": 7, "settings": {"t": 2.0}}
    assert settings.items() <= given.items()
    assert given["y"].tolist() == [1, 2, 0]
    assert given["counts"] == [1, 2, 1]
    assert given["cluster_names"] == ["0: sea", "cluster 1"]
    assert given["label_names"] == ["x", "y", "(no label)"]
    assert given["text"] == ["row 0", "row 1 and 1 like it", "row 2"]
    result.file = result.file.assign(alcohol=[13.2, np.nan, 0.1, 5.0], ash=[2, 3, 4, 5])
    draw_map(result, Path("map.html"), "title", "pca", 7, {})
    assert given["text"] == [
        "row 0: alcohol 13.2, ash 2",
        "row 1 and 1 like it: ash 3",
        "row 2: alcohol 0.1, ash 4",
    ]
    result.file = result.file.astype({"alcohol": np.float32})  # which is not 13.199999809265137
    draw_map(result, Path("map.html"), "title", "pca", 7, {})
    assert given["text"][0] == "row 0: alcohol 13.2, ash 2"
    result.file = pd.DataFrame({f"c{i}": [i] * 3 for i in range(51)})
    draw_map(result, Path("map.html"), "title", "pca", 7, {})
    assert given["text"][0].endswith(", c49 49 ...")
    result.content.texts = ["a" * 1000, "b" * 1001, ""]
    draw_map(result, Path("map.html"), "title", "pca", 7, {})
    assert given["text"][:2] == ["row 0: " + "a" * 1000, f"row 1 and 1 like it: {'b' * 1000} ..."]


def test_no_column_of_a_file_takes_the_place_of_another():
    file = pd.DataFrame([[1, 2, 3]], columns=["file row", "row", "file file row"])
    content = SimpleNamespace(point=np.array([0]))
    table = assignments(content, np.ones((1, 1)), ["all"], file)
    own = ["file row", "file file row", "file file file row"]
    assert list(table.columns) == ["row", "cluster", "name", "probability", *own]
    assert table[own].iloc[0].tolist() == [1, 2, 3]


def test_rows_of_a_file_keep_their_order_whatever_its_index():
    file = pd.DataFrame({"v": [10, 20, 30]}, index=[2, 0, 1])
    content = SimpleNamespace(point=np.array([0, 1, 2]))
    table = assignments(content, np.eye(3), ["a", "b", "c"], file)
    assert table["v"].tolist() == [10, 20, 30]


def test_columns_of_the_file_keep_their_integers_beside_missing_ones():
    content = SimpleNamespace(point=np.arange(3))
    file = pd.DataFrame({"id": pd.array([2**53 + 1, None, 7], dtype="Int64")})
    table = assignments(content, np.ones((3, 1)), ["all"], file)
    assert as_csv(table[["row", "id"]]) == "row,id\n0,9007199254740993\n1,\n2,7\n"


def test_warnings_alone_are_notes(capsys):
    steps, logger = Steps(), logging.getLogger("jsem_pyg.test")
    with steps.listening(verbose=True):
        logger.info("five rounds")
        logger.warning("too few")
    assert capsys.readouterr().err == "five rounds\nWarning: too few\n"
    assert steps.notes == ["Warning: too few"]
