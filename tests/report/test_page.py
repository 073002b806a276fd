"""The pieces of a page: scores, names, edges and pictures."""

from dataclasses import replace

import pandas as pd
import pytest
import torch
from report_cases import blobs

from jsem_pyg.report.content import FULL, edge_arrays, read_groupings
from jsem_pyg.report.page import score_table
from jsem_pyg.training.training_graph import prepare_graph


def test_scores_are_a_row_for_each_method():
    frame = pd.DataFrame({"ari": [0.75], "seeds": 5}, index=["heat"])
    assert score_table(frame).columns == ["", "ari", "seeds"]
    assert score_table(frame).rows == [["heat", "0.750", "5"]]
    assert score_table({"ARI": (0.5, 0.25)}).rows == [["ARI", "0.500 ±\N{NO-BREAK SPACE}0.250"]]
    nested = score_table({"raw": {"ARI": 0.25}, "heat": {"ARI": 0.5, "NMI": "none"}})
    assert nested.columns == ["", "ARI", "NMI"]
    assert nested.rows == [["raw", "0.250", ""], ["heat", "0.500", "none"]]


@pytest.mark.parametrize("names", [["a", "b", "c", "d"], {3: "d", 1: "b", -1: "none"}, None])
def test_groups_are_named_by_their_labels(names):
    data, found = blobs(each=1, corners=5)
    found = replace(found, labels=torch.tensor([3, 1, 1, 3, 3]), levels=(torch.zeros(5),))
    clusters, labels, level = read_groupings(prepare_graph(data), found, names, None, None)
    assert clusters.names == (["cluster 1", "cluster 3"] if names is None else ["b", "d"])
    assert clusters.sizes == [2, 3]
    assert clusters.of.tolist() == [1, 0, 0, 1, 1]
    assert labels.kind == "label"
    assert [each.is_level for each in (clusters, labels, level)] == [False, False, True]


def test_each_edge_stands_at_its_smaller_end():
    edge_index = torch.tensor([[2, 0, 1, 3, 0, 1], [1, 3, 0, 0, 1, 2]])
    conductance = torch.tensor([0.6 / FULL, 0.25, 1.0, 0.25, 1.0, 0.6 / FULL], dtype=torch.float64)
    arrays = edge_arrays(edge_index, conductance, num_nodes=5)
    assert arrays["edges_start"].tolist() == [0, 2, 3, 3, 3, 3]
    assert arrays["edges_end"].tolist() == [1, 3, 2]
    assert arrays["edges_conductance"].tolist() == [FULL, FULL // 4, 1]  # to the nearest part
