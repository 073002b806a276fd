"""Edges of several kinds become one undirected graph; compared with dense matrices."""

import pytest
import torch

from jsem_pyg.graph.relations import HeteroGraph, merge_reverse

COUNTS = {"a": 4, "b": 3, "lonely": 2}
A_R_B, B_REV_A, A_S_A = ("a", "r", "b"), ("b", "rev_r", "a"), ("a", "s", "a")


def draw(seed):
    """Random edges of three types, with repeats, loops and missing directions, and weights."""
    generator = torch.Generator().manual_seed(seed)
    edges, weights = {}, {}
    for name, count in ((A_R_B, 7), (B_REV_A, 5), (A_S_A, 9)):
        ends = [torch.randint(COUNTS[e], (count,), generator=generator) for e in (name[0], name[2])]
        edges[name] = torch.stack(ends)
        weights[name] = torch.rand(count, generator=generator, dtype=torch.float64) + 0.1
    return edges, weights


def dense(edges, weights):
    """Sum repeats in each direction, take the mean of the directions given: [R, N, N]."""
    first = {"a": 0, "b": 4}
    out = []
    for names in ((A_R_B, B_REV_A), (A_S_A,)):
        total = torch.zeros(9, 9, dtype=torch.float64)
        for name in names:
            for (i, j), w in zip(edges[name].T.tolist(), weights[name].tolist(), strict=True):
                i, j = i + first[name[0]], j + first[name[2]]
                total[i, j] += w if i != j else 0
        given = (total > 0).double() + (total.T > 0)
        out.append((total + total.T) / given.clamp(min=1))
    return torch.stack(out)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("has_weight", [True, False])
def test_weights_are_summed_in_a_direction_and_averaged_over_both(seed, has_weight):
    edges, weights = draw(seed)
    graph = HeteroGraph(edges, COUNTS)
    found = graph.edge_weight(weights if has_weight else None)
    if not has_weight:
        weights = {name: torch.ones_like(weight) for name, weight in weights.items()}
    if found is None:
        found = torch.ones(graph.structure.num_edges, dtype=torch.float64)
    total = torch.zeros(2, 9, 9, dtype=torch.float64)
    row, col = graph.structure.edges
    total.index_put_((graph.edge_type, row, col), found.double(), accumulate=True)
    torch.testing.assert_close(total, dense(edges, weights))


def test_the_gradient_of_weights():
    edges, weights = draw(0)
    graph = HeteroGraph(edges, COUNTS)
    names = list(edges)

    def weigh(*given):
        return graph.edge_weight(dict(zip(names, given, strict=True)))

    assert torch.autograd.gradcheck(weigh, [weights[name].requires_grad_() for name in names])


def test_reverse_types_belong_to_their_relation():
    names = [B_REV_A, A_R_B, A_S_A, ("b", "rev_q", "b")]
    relations, member = merge_reverse(names)
    assert relations == (A_R_B, A_S_A, ("b", "rev_q", "b"))
    assert [member[name] for name in names] == [(0, True), (0, False), (1, False), (2, False)]


def test_both_directions_beside_a_reverse_type_are_one_edge():
    """As `ToUndirected(merge=False)` makes them of edges that have both directions."""
    both, rev = torch.tensor([[0, 1, 1, 1], [1, 0, 2, 2]]), ("a", "rev_s", "a")
    graph = HeteroGraph({A_S_A: both, rev: both.flip(0)}, COUNTS)
    assert graph.pair_weight(None).tolist() == [1.0, 2.0]  # the second stands there twice
    weights = {A_S_A: torch.tensor([1.0, 3.0, 2.0, 2.0]), rev: torch.tensor([5.0, 7.0, 1.0, 1.0])}
    assert graph.pair_weight(weights).tolist() == [4.0, 3.0]


def test_nodes_are_joined_and_split_by_type():
    graph = HeteroGraph({A_R_B: torch.tensor([[3], [0]])}, COUNTS)
    x_dict = {name: torch.randn(2, count, 5) for name, count in COUNTS.items()}
    x = graph.join(x_dict)
    assert graph.structure.edges[1].tolist() == [3, 4]
    assert all(torch.equal(part, x_dict[name]) for name, part in graph.split(x).items())


def test_no_edges_at_all():
    graph = HeteroGraph({}, COUNTS, [A_R_B])
    assert graph.relations == (A_R_B,)
    assert graph.structure.num_edges == 0
    assert graph.edge_weight(None) is None


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ({("a", "t", "a"): torch.zeros(2, 1, dtype=torch.long)}, "edge types of the metadata"),
        ({A_R_B: torch.tensor([[0], [3]])}, r"edge_index_dict\[\('a', 'r', 'b'\)\].*\[0, 3\)"),
        ({A_R_B: torch.zeros(3, 1, dtype=torch.long)}, r"edge_index_dict.*shape \[2, E\]"),
    ],
)
def test_edges_that_do_not_fit_are_refused(edges, message):
    with pytest.raises(ValueError, match=message):
        HeteroGraph(edges, COUNTS, [A_R_B, A_S_A])


def test_weights_that_do_not_fit_are_refused():
    graph = HeteroGraph({A_R_B: torch.tensor([[0, 1], [0, 1]])}, COUNTS)
    with pytest.raises(ValueError, match=r"edge_weight_dict\[\('a', 'r', 'b'\)\]"):
        graph.edge_weight({A_R_B: torch.ones(3)})
    with pytest.raises(ValueError, match="edge types of 'edge_index_dict'"):
        graph.edge_weight({A_S_A: torch.ones(3)})
