import logging
from types import SimpleNamespace

import numpy as np
import pandas as pd

from jsem_pyg.command.result import as_csv, assignments
from jsem_pyg.command.steps import Steps


def test_no_column_of_a_file_takes_the_place_of_another():
    file = pd.DataFrame([[1, 2, 3]], columns=["file row", "row", "file file row"])
    content = SimpleNamespace(point=np.array([0]))
    table = assignments(content, np.ones((1, 1)), ["all"], file)
    own = ["file row", "file file row", "file file file row"]
    assert list(table.columns) == ["row", "cluster", "name", "probability", *own]
    assert table[own].iloc[0].tolist() == [1, 2, 3]


def test_columns_of_the_file_keep_their_integers_beside_missing_ones():
    content = SimpleNamespace(point=np.arange(3))
    file = pd.DataFrame({"id": pd.array([2**53 + 1, None, 7], dtype="Int64")})
    table = assignments(content, np.ones((3, 1)), ["all"], file)
    assert as_csv(table[["row", "id"]]) == b"row,id\n0,9007199254740993\n1,\n2,7\n"


def test_warnings_alone_are_notes(capsys):
    steps, logger = Steps(), logging.getLogger("jsem_pyg.test")
    with steps.listening(verbose=True):
        logger.info("five rounds")
        logger.warning("too few")
    assert capsys.readouterr().err == "five rounds\nWarning: too few\n"
    assert steps.notes == ["Warning: too few"]
