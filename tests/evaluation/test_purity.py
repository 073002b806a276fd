import pytest
import torch
from torch_geometric.utils import homophily, to_undirected

from jsem_pyg.evaluation import neighbour_purity

# A triangle 0-1-2 with the tail 2-3, and 4 alone.
TRIANGLE_WITH_TAIL = torch.tensor([[0, 1, 0, 2, 1, 2, 2, 3], [1, 0, 2, 0, 2, 1, 3, 2]])
Y = torch.tensor([0, 0, 1, 1, 0])


def test_hand_computed_without_weights():
    # Node by node: 1/2, 1/2, 1/3, 1; node 4 has no neighbour and does not count.
    assert neighbour_purity(TRIANGLE_WITH_TAIL, Y) == pytest.approx((0.5 + 0.5 + 1 / 3 + 1) / 4)


def test_hand_computed_with_weights():
    weight = torch.tensor([3.0, 3, 1, 1, 1, 1, 2, 2])
    expected = (3 / 4 + 3 / 4 + 2 / 4 + 1) / 4
    assert neighbour_purity(TRIANGLE_WITH_TAIL, Y, weight) == pytest.approx(expected)


def test_neighbours_of_zero_weight_and_self_loops_do_not_count():
    loops = torch.cat([TRIANGLE_WITH_TAIL, torch.tensor([[0, 4], [0, 4]])], dim=1)
    assert neighbour_purity(loops, Y) == pytest.approx(neighbour_purity(TRIANGLE_WITH_TAIL, Y))
    weight = torch.tensor([1.0, 1, 0, 0, 0, 0, 0, 0])
    assert neighbour_purity(TRIANGLE_WITH_TAIL, Y, weight) == 1


def test_a_directed_edge_makes_its_source_a_neighbour_of_its_target():
    edge_index = torch.tensor([[0, 1, 1], [2, 2, 3]])
    assert neighbour_purity(edge_index, torch.tensor([0, 1, 1, 0])) == pytest.approx(0.25)


def test_equals_node_homophily_where_no_node_is_isolated():
    generator = torch.Generator().manual_seed(0)
    ring = torch.stack([torch.arange(30), (torch.arange(30) + 1) % 30])
    chords = torch.randint(30, (2, 40), generator=generator)
    edge_index = to_undirected(torch.cat([ring, chords[:, chords[0] != chords[1]]], dim=1))
    y = torch.randint(3, (30,), generator=generator)
    expected = homophily(edge_index, y, method="node")
    assert neighbour_purity(edge_index, y) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"edge_index": torch.empty(2, 0, dtype=torch.long)}, "at least one edge"),
        ({"edge_weight": torch.zeros(8)}, "at least one edge"),
        ({"y": torch.arange(3)}, r"node indices in \[0, 3\)"),
    ],
)
def test_bad_input_is_refused(change, message):
    arguments = {"edge_index": TRIANGLE_WITH_TAIL, "y": Y, **change}
    with pytest.raises(ValueError, match=message):
        neighbour_purity(**arguments)


def test_sums_of_huge_weights_do_not_overflow():
    weight = torch.full((8,), 1e308, dtype=torch.float64)
    expected = neighbour_purity(TRIANGLE_WITH_TAIL, Y)
    assert neighbour_purity(TRIANGLE_WITH_TAIL, Y, weight) == pytest.approx(expected)
