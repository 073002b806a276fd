import numpy as np
import torch
from report_cases import blobs
from torch_geometric.data import Data

from jsem_pyg.curvature import forman_curvature
from jsem_pyg.report.edges import FULL, edge_table, histograms


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
