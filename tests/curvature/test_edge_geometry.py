import networkx as nx
import pytest
import tiny_graphs
import torch

from jsem_pyg.curvature import degree_contrast, distance_rank, jaccard_overlap
from jsem_pyg.testing import random_graph

RING = tiny_graphs.ring(3)[0]

# Each as a function of (edge_index, edge_weight, num_nodes).
FUNCTIONS = {
    "jaccard_overlap": lambda edge_index, _, num_nodes: jaccard_overlap(edge_index, num_nodes),
    "degree_contrast": degree_contrast,
    "distance_rank": distance_rank,
}


@pytest.fixture(params=FUNCTIONS)
def geometry(request):
    return FUNCTIONS[request.param]


@pytest.mark.parametrize("seed", range(5))
def test_jaccard_equals_networkx(seed):
    edge_index, _ = random_graph(25, 0.1 + 0.2 * seed, num_isolated=2, seed=seed)
    graph = nx.Graph(edge_index.t().tolist())
    pairs = edge_index.t().tolist()
    expected = torch.tensor([score for _, _, score in nx.jaccard_coefficient(graph, pairs)])
    torch.testing.assert_close(jaccard_overlap(edge_index, 25), expected)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_contrast_and_rank_equal_their_definitions(seed, dtype):
    edge_index, weight = random_graph(20, 0.1 + 0.2 * seed, num_isolated=1, seed=seed, dtype=dtype)
    weight = (weight * 5).ceil() / 5  # so that there are ties
    around = [dict.fromkeys(()) for _ in range(20)]
    for (i, j), w in zip(edge_index.t().tolist(), weight.tolist(), strict=True):
        around[i][j] = w

    def place(i, j):
        nearer = sum(w > around[i][j] for w in around[i].values())
        tied = sum(w == around[i][j] for w in around[i].values())
        return (nearer + tied / 2) / len(around[i])

    contrast, rank = [], []
    for i, j in edge_index.t().tolist():
        d_i, d_j = sum(around[i].values()), sum(around[j].values())
        contrast.append(abs(d_i - d_j) / (d_i + d_j))
        rank.append((place(i, j) + place(j, i)) / 2)
    expected = torch.tensor(contrast, dtype=dtype), torch.tensor(rank, dtype=dtype)
    torch.testing.assert_close(degree_contrast(edge_index, weight, 20), expected[0])
    torch.testing.assert_close(distance_rank(edge_index, weight, 20), expected[1])


@pytest.mark.parametrize(
    ("graph", "jaccard", "contrast"),
    [
        (tiny_graphs.ring(3), [1 / 3] * 3, [0.0] * 3),
        (tiny_graphs.ring(5), [0.0] * 5, [0.0] * 5),
        (tiny_graphs.star(4), [0.0] * 4, [3 / 5] * 4),
        (tiny_graphs.triangle_with_tail(), [1 / 3, 1 / 4, 1 / 4, 0.0], [0.0, 0.2, 0.2, 0.5]),
    ],
)
def test_by_hand(graph, jaccard, contrast):
    torch.testing.assert_close(jaccard_overlap(*graph), torch.tensor(jaccard * 2))
    torch.testing.assert_close(degree_contrast(graph[0]), torch.tensor(contrast * 2))


def test_ranks_by_hand():
    # 01, 02, 12, 23; node 2 has all but 01, of which 02 and 12 are tied.
    weight = torch.tensor([3.0, 1.0, 1.0, 2.0]).repeat(2)
    ends = [[1 / 4, 1 / 4], [3 / 4, 2 / 3], [3 / 4, 2 / 3], [1 / 6, 1 / 2]]
    expected = torch.tensor(ends).mean(1).repeat(2)
    rank = distance_rank(tiny_graphs.triangle_with_tail()[0], weight)
    torch.testing.assert_close(rank, expected)


def test_ranks_do_not_see_the_scale_of_the_weights():
    edge_index, weight = random_graph(30, 0.3)
    rank = distance_rank(edge_index, weight)
    assert torch.equal(rank, distance_rank(edge_index, 7 * weight**3))


@pytest.mark.parametrize("unit", [1e-9, 1e-3, 1e6])
def test_contrasts_do_not_see_the_unit_of_the_weights(unit):
    edge_index, weight = random_graph(30, 0.3)
    contrast = degree_contrast(edge_index, weight)
    torch.testing.assert_close(degree_contrast(edge_index, unit * weight), contrast)


def test_edges_without_weight():
    weight = torch.zeros(6)
    assert degree_contrast(RING, weight).tolist() == [0.0] * 6
    assert distance_rank(RING, weight).tolist() == [0.5] * 6


@pytest.mark.parametrize("graph", [tiny_graphs.empty(), tiny_graphs.single_node()])
def test_a_graph_without_edges(geometry, graph):
    edge_index, num_nodes = graph
    assert geometry(edge_index, torch.empty(0), num_nodes).shape == (0,)
    assert geometry(edge_index, torch.empty(0), None).shape == (0,)


def test_the_order_of_edges_and_isolated_nodes_do_not_matter(geometry):
    edge_index, weight = random_graph(30, 0.3)
    order = torch.randperm(weight.numel(), generator=torch.Generator().manual_seed(0))
    values = geometry(edge_index, weight, 30)
    assert torch.equal(geometry(edge_index[:, order], weight[order], 50), values[order])
    assert torch.equal(geometry(edge_index.flip(0), weight, None), values)  # bitwise symmetric


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_type_follows_the_weights(dtype):
    weight = torch.ones(6, dtype=dtype, requires_grad=True)
    for function in (degree_contrast, distance_rank):
        result = function(RING.int(), weight)
        assert result.dtype == dtype
        assert not result.requires_grad
    assert jaccard_overlap(RING).dtype == degree_contrast(RING).dtype == torch.float32


@pytest.mark.parametrize(
    ("edge_index", "num_nodes", "error", "message"),
    [
        (RING.tolist(), None, TypeError, r"\[2, E\] integer tensor \(got list\)"),
        (RING, 2, ValueError, r"node indices in \[0, 2\)"),
        (torch.tensor([[0, 1, 1], [1, 0, 1]]), None, ValueError, "self-loops .got 1"),
        (RING.repeat(1, 2), None, ValueError, r"repeated edges \(got 6\)"),
        (RING[:, :4], None, ValueError, "got 2 edges without their reverse"),
    ],
)
def test_refuses_graphs(geometry, edge_index, num_nodes, error, message):
    with pytest.raises(error, match=message):
        geometry(edge_index, torch.ones(6), num_nodes)
