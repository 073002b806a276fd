import numpy as np
import pytest
import torch
from report_cases import blobs
from torch_geometric.data import Data

from jsem_pyg.curvature import forman_curvature
from jsem_pyg.report.edges import FULL, _histogram, edge_table, histograms


def test_each_edge_stands_at_its_smaller_end():
    edge_index = torch.tensor([[2, 0, 1, 3, 0, 1], [1, 3, 0, 0, 1, 2]])
    conductance = torch.tensor([0.5, 0.25, 1.0, 0.25, 1.0, 0.5])
    table = edge_table(edge_index, conductance, num_nodes=5)
    assert table.start.tolist() == [0, 2, 3, 3, 3, 3]
    assert table.end.tolist() == [1, 3, 2]
    assert np.allclose(table.conductance / FULL, [1.0, 0.25, 0.5], atol=1e-4)


def test_conductances_are_rounded_to_the_nearest_part():
    edge_index, parts = torch.tensor([[0, 0, 0], [1, 2, 3]]), [0.6, 7.4, FULL - 0.6]
    table = edge_table(edge_index, torch.tensor(parts, dtype=torch.float64) / FULL, num_nodes=4)
    assert table.conductance.tolist() == [1, 7, FULL - 1]


def test_hundredths_are_whole():  # the page asks which conduct less than one of them
    edge_index = torch.stack([torch.zeros(100).long(), torch.arange(1, 101)])
    hundredths = [each / 100 for each in range(100)]
    conductance = torch.tensor(hundredths)
    table = edge_table(edge_index, conductance, num_nodes=101)
    assert (table.conductance / FULL).tolist() == hundredths


def test_histograms_count_each_edge_once():
    data, found = blobs()
    conductance, curvature = histograms(data, found.conductances, data.y.numpy())
    source, target = data.edge_index[:, data.edge_index[0] < data.edge_index[1]]
    same = int((data.y[source] == data.y[target]).sum())
    for chart in (conductance, curvature):
        assert sum(chart.inside) == same
        assert sum(chart.between) == len(source) - same
        assert len(chart.borders) == len(chart.inside) + 1
    assert conductance.borders[0] == 0
    assert conductance.borders[-1] == 1
    assert sum(conductance.between[:8]) == len(source) - same  # all close
    bent = forman_curvature(data.edge_index, data.edge_weight)
    assert bent.min() <= curvature.borders[0] < curvature.borders[-1] <= bent.max()
    assert conductance.summary.startswith("inside: median 0.8")
    bars = np.add(curvature.inside, curvature.between)
    assert (bars[[0, -1]] > 0).all()
    assert np.count_nonzero(bars) > 10


def test_a_histogram_of_one_value():
    data = Data(x=torch.eye(2), edge_index=torch.tensor([[0, 1], [1, 0]]))
    charts = histograms(data, torch.ones(2), np.zeros(2))
    assert [sum(chart.inside) for chart in charts] == [1, 1]
    assert charts[1].borders[0] < charts[1].borders[-1]
    assert charts[1].borders == sorted(charts[1].borders)


@pytest.mark.parametrize("value", [0.0, -2.0, 1e-300, 1e32, -1e300])
def test_a_histogram_of_one_value_in_any_unit(value):
    values = value * (1 + np.array([0, 1e-15, 2e-15]))
    chart = _histogram("name", values, np.full(3, True), values.min(), values.max())
    assert (np.diff(chart.borders) > 0).all()
    assert chart.inside[0] == 3


def test_what_lies_beyond_a_histogram_counts_at_its_ends():
    values = np.array([-5.0, 0.1, 0.9, 7.0])
    chart = _histogram("name", values, np.array([True, True, False, False]), 0.0, 1.0)
    assert (chart.inside[0], sum(chart.inside)) == (1, 2)
    assert (chart.between[-1], sum(chart.between)) == (1, 2)


def test_the_bars_of_one_large_curvature_have_a_width():
    triangle = torch.tensor([[0, 1, 2, 0, 1, 2], [1, 2, 0, 2, 0, 1]])
    weight = torch.full((6,), 1e10, dtype=torch.float64)
    data = Data(edge_index=triangle, edge_weight=weight, num_nodes=3)
    _, curvature = histograms(data, torch.ones(6), np.zeros(3))
    assert curvature.inside[0] == 3
    assert (np.diff(curvature.borders) > 0).all()


def test_curvatures_that_differ_by_rounding_are_one_bar():
    chart = _histogram("", np.array([2 - 2**-52, 2.0, 2.0]), np.ones(3, bool), 2 - 2**-52, 2.0)
    assert chart.inside[0] == 3
    assert (np.diff(chart.borders) > 1e-3).all()
