import numpy as np
import pytest
import torch
from report_cases import blobs
from torch_geometric.data import Data

from jsem_pyg.estimators import DiffusionClusterer
from jsem_pyg.nn import DiffusionClassifier
from jsem_pyg.report import Findings
from jsem_pyg.report.findings import read_findings
from jsem_pyg.training import fit


def test_of_a_trained_classifier():
    data, _ = blobs()
    result = fit(DiffusionClassifier(data.num_features, 3, normalization="rw"), data, epochs=1)
    graph, found = read_findings(data, result)
    args = data.x, data.edge_index, data.edge_weight
    with torch.no_grad():
        assert torch.equal(found.labels, result.model(*args).argmax(-1))
        assert torch.equal(found.conductances, result.model.conductances(*args))
    assert found.t == result.model.t.item()
    assert found.normalization == "rw"
    assert torch.equal(graph.y, data.y)


def test_of_a_clusterer():
    data, _ = blobs()
    clusterer = DiffusionClusterer(3, n_neighbors=6, t=2.0, random_state=0).fit(data.x.numpy())
    graph, found = read_findings(Data(x=data.x, y=data.y), clusterer)
    assert np.array_equal(found.labels, clusterer.labels_)
    assert np.array_equal(found.conductances, clusterer.conductances_)
    assert found.t == clusterer.t_
    assert found.t in (1.0, 2.0)
    assert np.array_equal(graph.edge_index, clusterer.edge_index_)
    assert graph.structure.num_edges == len(found.conductances)
    assert torch.equal(graph.edge_weight, torch.from_numpy(clusterer.edge_weight_))
    other = read_findings(data, clusterer)[0]  # whatever graph the data have
    assert torch.equal(other.edge_index, graph.edge_index)
    with pytest.raises(ValueError, match="'data' to hold the points that the clusterer was"):
        read_findings(Data(x=data.x[1:]), clusterer)
    with pytest.raises(ValueError, match="not fitted"):
        read_findings(data, DiffusionClusterer())


def test_of_other_points_than_a_clusterer_was_fitted_to():
    x = blobs()[0].x * torch.tensor([1.0, 100.0, 1.0, 1e-3, 1.0])
    clusterer = DiffusionClusterer(3, n_neighbors=6, t=2.0, scale="robust", random_state=0)
    clusterer.fit(x.numpy())
    graph, _ = read_findings(Data(x=x), clusterer)
    assert torch.equal(graph.x, x / torch.from_numpy(clusterer.scale_).float())
    assert torch.equal(graph.x, torch.from_numpy(clusterer.points_))
    read_findings(Data(x=x.half().float()), DiffusionClusterer(3).fit(x.half().numpy()))
    read_findings(Data(x=x.half()), clusterer)  # the same but for the digits that it lacks
    for other in (x[1:], x.flip(0), x + x.std(0), x[:, 1:]):
        with pytest.raises(ValueError, match="'data' to hold the points that the clusterer was"):
            read_findings(Data(x=other), clusterer)


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"labels": torch.zeros(3).long()}, "Expected 'result.labels' to have shape"),
        ({"conductances": torch.ones(3)}, "Expected 'result.conductances' to have shape"),
        ({"t": -1.0}, "Expected 'result.t' to be non-negative"),
        ({"normalization": "no"}, "Expected 'result.normalization' to be one of"),
    ],
)
def test_findings_that_do_not_fit(changed, match):
    data, found = blobs()
    with pytest.raises((TypeError, ValueError), match=match):
        read_findings(data, Findings(**{**vars(found), **changed}))


@pytest.mark.parametrize(
    ("value", "match"),
    [(2.0, r"to lie in \[0, 1\]"), (torch.nan, "to be finite"), (0.5, "to be the same in both")],
)
def test_conductances_that_are_none(value, match):
    data, found = blobs()
    conductances = found.conductances.clone()
    conductances[0] = value
    if value == 2.0:
        conductances[:] = value
    with pytest.raises(ValueError, match=f"Expected 'result.conductances' {match}"):
        read_findings(data, Findings(found.labels, conductances, 1.0))
