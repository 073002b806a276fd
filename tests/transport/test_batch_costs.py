import pytest
import torch
from scipy.sparse.csgraph import shortest_path
from torch_geometric.data import Batch, Data

from jsem_pyg.diffusion.exact import dense_laplacian
from jsem_pyg.transport import batch_costs


def graphs(dtype=torch.float64):
    """A ring of five with a chord and weights; a path of three; one node."""
    ring = torch.tensor([[0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 0, 2]])
    weight = torch.tensor([1.0, 2.0, 0.5, 1.0, 3.0, 0.7], dtype=dtype)
    path = torch.tensor([[0, 1], [1, 2]])
    parts = [
        Data(edge_index=ring, edge_weight=weight, x=torch.rand(5, 2, dtype=dtype)),
        Data(edge_index=path, edge_weight=torch.ones(2, dtype=dtype), x=torch.ones(3, 2).to(dtype)),
        Data(
            edge_index=torch.zeros(2, 0, dtype=torch.int64),
            edge_weight=torch.ones(0, dtype=dtype),
            x=torch.ones(1, 2, dtype=dtype),
        ),
    ]
    for part in parts:  # both directions
        part.edge_index = torch.cat([part.edge_index, part.edge_index.flip(0)], 1)
        part.edge_weight = part.edge_weight.repeat(2)
    return parts


def dense(part):
    n = part.x.size(0)
    out = torch.zeros(n, n, dtype=part.edge_weight.dtype)
    return out.index_put((part.edge_index[0], part.edge_index[1]), part.edge_weight)


@pytest.mark.parametrize("cost", ["features", "inner", "shortest_path", "heat", "adjacency"])
def test_every_graph_has_the_costs_that_it_has_alone(cost):
    parts = graphs()
    costs = batch_costs(Batch.from_data_list(parts), cost)
    assert costs.matrix.shape == (3, 5, 5)
    assert costs.sizes.tolist() == [5, 3, 1]
    for index, part in enumerate(parts):
        n = part.x.size(0)
        if cost == "features":
            expected = torch.cdist(part.x, part.x).square()
        elif cost == "inner":
            expected = part.x @ part.x.T
        elif cost == "shortest_path":
            hops = shortest_path((dense(part) > 0).double().numpy(), unweighted=True)
            expected = torch.from_numpy(hops)
        elif cost == "heat":
            laplacian = dense_laplacian(part.edge_index, part.edge_weight, n)
            expected = torch.matrix_exp(-laplacian)
        else:
            expected = dense(part)
        own = costs.matrix[index]
        torch.testing.assert_close(own[:n, :n].double(), expected)
        assert float(own[n:].abs().sum() + own[:, n:].abs().sum()) == 0
        alone = batch_costs(part, cost).matrix[0]
        torch.testing.assert_close(own[:n, :n], alone)


def test_one_direction_of_an_edge_is_enough():
    path = torch.tensor([[0, 1, 2], [1, 2, 1]])
    weight = torch.tensor([4.0, 2.0, 3.0])
    data = Data(edge_index=path, edge_weight=weight, num_nodes=3)
    assert batch_costs(data, "adjacency").matrix[0].tolist() == [
        [0, 4, 0],
        [4, 0, 2.5],
        [0, 2.5, 0],
    ]
    lengths = batch_costs(data, "shortest_path", edge_length=weight).matrix[0]
    assert lengths.tolist() == [[0, 4, 6], [4, 0, 2], [6, 2, 0]]


def test_what_no_path_joins():
    data = Data(edge_index=torch.tensor([[0, 1], [1, 0]]), num_nodes=3)
    with pytest.raises(ValueError, match="1 that are not, the first is 0"):
        batch_costs(data, "shortest_path")
    assert bool(torch.isfinite(batch_costs(data, "heat").matrix).all())


def test_half_precision_is_computed_in_float32():
    assert batch_costs([torch.rand(4, 2).half()]).matrix.dtype == torch.float32


@pytest.mark.parametrize(
    ("graphs", "options", "message"),
    [
        (Data(num_nodes=3), {}, "features in 'x'"),
        (Data(x=torch.ones(3, 2)), {"attribute": "pos"}, "features in 'pos'"),
        (Data(x=torch.full((3, 2), torch.nan)), {}, "'x' to be finite"),
        (Data(x=torch.ones(3)), {}, r"'x' to have shape \[N, D\]"),
        (Data(x=torch.ones(3, 2), num_nodes=4), {}, "a row for each of 4 nodes"),
        (Data(x=torch.ones(3, 2)), {"cost": "heat"}, "to have an 'edge_index'"),
        (Data(x=torch.ones(3, 2)), {"cost": "matrix"}, "one that a batch has"),
        (torch.ones(3, 3), {"cost": "matrix"}, r"shape \[B, N, N\]"),
        ([torch.tensor([[0.0, 1.0], [2.0, 0.0]])], {"cost": "matrix"}, "same in both directions"),
        ([torch.ones(2, 2), torch.ones(2, 3)], {}, "as many columns each"),
        (Data(num_nodes=0, x=torch.ones(0, 2)), {}, "at least one node"),
    ],
)
def test_what_is_refused(graphs, options, message):
    with pytest.raises(ValueError, match=message):
        batch_costs(graphs, **options)


def test_wrong_types():
    with pytest.raises(TypeError, match="a Batch, a list of tensors"):
        batch_costs({"x": 1})
    with pytest.raises(TypeError, match="floating-point"):
        batch_costs([torch.ones(2, 2, dtype=torch.int64)])


def test_an_edge_between_two_graphs():
    batch = Batch.from_data_list(graphs())
    batch.edge_index = torch.tensor([[0], [6]])
    batch.edge_weight = torch.ones(1)
    with pytest.raises(ValueError, match="between two graphs"):
        batch_costs(batch, "adjacency")
