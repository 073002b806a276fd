import numpy as np
import pandas as pd
import pytest
import torch

from jsem_pyg.report.groups import group
from jsem_pyg.report.tables import score_table, settings_table, version_table


def test_means_are_joined_by_their_spread():
    frame = pd.DataFrame(
        {"ari_mean": [0.5, 0.75], "ari_std": [0.0, 0.125], "nmi_mean": [0.1, np.nan], "seeds": 5},
        index=pd.Index(["raw", "heat"], name="method"),
    )
    table = score_table(frame)
    assert table.columns == ["method", "ari", "nmi_mean", "seeds"]
    assert table.rows[0] == ["raw", "0.500 ±\N{NO-BREAK SPACE}0.000", "0.100", "5"]
    assert table.rows[1] == ["heat", "0.750 ±\N{NO-BREAK SPACE}0.125", "", "5"]


@pytest.mark.parametrize("names", [["ari", "ari"], [1, "1"]])
def test_columns_of_one_name_are_refused(names):
    with pytest.raises(ValueError, match="'scores' to have columns of different names"):
        score_table(pd.DataFrame([[0.5, 0.25], [0.75, 1.0]], columns=names))


def test_scores_in_a_mapping():
    assert score_table({"ARI": (0.5, 0.0125), "u": 10.25, "t": 123.456}).rows == [
        ["ARI", "0.500 ±\N{NO-BREAK SPACE}0.013"],
        ["u", "10.2"],
        ["t", "123"],
    ]
    nested = score_table({"raw": {"ARI": 0.25}, "heat": {"ARI": 0.5, "NMI": "none"}})
    assert nested.columns == ["", "ARI", "NMI"]
    assert nested.rows == [["raw", "0.250", ""], ["heat", "0.500", "none"]]
    assert score_table({}).rows == []
    assert score_table(None) is None


def test_settings_and_versions():
    assert settings_table({"k": 15, "path": None}).rows == [["k", "15"], ["path", "None"]]
    assert settings_table(None) is None
    versions = dict(version_table().rows)
    assert (
        versions["torch"] == torch.__version__.split("+")[0]
        or versions["torch"] == torch.__version__
    )
    assert "python" in versions


@pytest.mark.parametrize("names", [["a", "b", "c", "d"], {3: "d", 1: "b", -1: "none"}])
def test_groups_are_named_by_their_labels(names):
    found = group("label", torch.tensor([3, 1, 1, 3, 3]), names, "label_names")
    assert found.names == ["b", "d"]
    assert found.sizes == [2, 3]
    assert found.of.tolist() == [1, 0, 0, 1, 1]


def test_groups_without_names_have_numbers():
    found = group("cluster", torch.tensor([10**6, -1], dtype=torch.int32), None, "cluster_names")
    assert found.names == ["cluster -1", "cluster 1000000"]
