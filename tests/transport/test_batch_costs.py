import pytest
import torch
from torch_geometric.data import Batch, Data

from jsem_pyg.testing import random_graph
from jsem_pyg.transport import AdjacencyCost, FeatureCost, HeatCost, geodesic_columns
from jsem_pyg.transport.small.costs import read_costs


def graphs():
    """Of eight, five and three nodes."""
    parts = []
    for size in (8, 5, 3):
        edge_index, weight = random_graph(size, 0.8, num_isolated=0)
        x = torch.randn(size, 2, generator=torch.Generator().manual_seed(size)).double()
        parts.append(Data(x=x, edge_index=edge_index, edge_weight=weight.double()))
    return parts


def paths(data):
    return geodesic_columns(data.edge_index, data.num_nodes, data.edge_weight)


@pytest.mark.parametrize(
    "cost",
    [None, HeatCost(1.0), AdjacencyCost, FeatureCost("kernel"), paths, lambda d: d.x @ d.x.T],
)
def test_every_graph_has_the_costs_that_it_has_alone(cost):
    parts = graphs()
    costs = read_costs("source", Batch.from_data_list(parts), cost)
    assert costs.sizes.tolist() == [8, 5, 3]
    assert costs.is_point.sum(1).tolist() == [8, 5, 3]
    for index, part in enumerate(parts):
        n = part.num_nodes
        alone = FeatureCost()(part) if cost is None else cost(part)
        expected = alone if isinstance(alone, torch.Tensor) else alone.dense()
        own = costs.matrix[index]
        torch.testing.assert_close(own[:n, :n], expected)
        assert float(own[n:].abs().sum() + own[:, n:].abs().sum()) == 0
        torch.testing.assert_close(read_costs("source", part, cost).matrix[0], own[:n, :n])


def test_half_precision_is_computed_in_float32():
    assert read_costs("source", [torch.rand(4, 2).half()], None).matrix.dtype == torch.float32


@pytest.mark.parametrize(
    ("given", "cost", "error", "message"),
    [
        ([], None, ValueError, "at least one graph"),
        ({"x": 1}, None, TypeError, "'source' to be a Batch, a list"),
        (torch.ones(3, 3), "matrix", TypeError, r"a tensor \[B, n, m\]"),
        (Data(num_nodes=3), None, TypeError, r"'source\[0\]' to be"),
        (Data(x=torch.ones(3)), None, ValueError, r"'source\[0\]' to be a table"),
        (Data(x=torch.full((3, 2), torch.nan)), None, ValueError, "'source' to be finite"),
        (Data(x=torch.ones(3, 2)), AdjacencyCost, ValueError, "to have 'edge_index'"),
        ([torch.ones(2, 2), torch.ones(2, 3)], None, ValueError, "have 2 columns, as others"),
        ([torch.ones(2, 3)], "matrix", ValueError, "to be square"),
        ([torch.ones(2, 2).triu()], "matrix", ValueError, "same in both directions"),
        ([torch.ones(2, 2, dtype=torch.int64)], None, TypeError, "floating-point"),
        ([torch.ones(2, 2), FeatureCost()(torch.ones(2, 2))], None, TypeError, "got both"),
        ([torch.ones(2, 2)], "features", ValueError, "'cost' to be None, 'matrix'"),
    ],
)
def test_what_is_refused(given, cost, error, message):
    with pytest.raises(error, match=message):
        read_costs("source", given, cost)


def test_the_widest_type_of_a_list_counts():
    """Not that of the first: points far from the origin need the digits of their own."""
    x = torch.tensor([[0.0], [1.0], [3.0]], dtype=torch.float64)
    costs = read_costs("source", [x.float(), x + 1e9], None)
    assert costs.matrix.dtype == torch.float64
    torch.testing.assert_close(costs.matrix[1], costs.matrix[0])
