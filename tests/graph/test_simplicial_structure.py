import pytest
import torch
from simplicial_cases import CASES, IDS, cliques, dense, dense_boundaries, once
from torch_geometric import EdgeIndex

from jsem_pyg.graph import SimplicialStructure

TRIANGLE = once([(0, 1), (1, 2), (2, 0)])


@pytest.mark.parametrize("name", IDS)
def test_boundaries_are_those_of_the_definition(name):
    edge_index, num_nodes = CASES[name]
    structure = SimplicialStructure(edge_index, num_nodes)
    assert torch.equal(structure.triangles, cliques(edge_index))
    b1, b2 = dense_boundaries(structure.edges, num_nodes)
    for actual, expected in zip(
        (*structure.edge_boundary, *structure.triangle_boundary),
        (b1, b1.t(), b2, b2.t()),
        strict=True,
    ):
        assert torch.equal(dense(actual), expected)
        for row in actual.csr.col.split(actual.csr.degree.tolist()):
            assert bool((row.diff() > 0).all())


@pytest.mark.parametrize("name", IDS)
def test_a_boundary_has_no_boundary(name):
    structure = SimplicialStructure(*CASES[name])
    b1, b2 = dense(structure.edge_boundary[0]), dense(structure.triangle_boundary[0])
    assert not (b1 @ b2).any()


@pytest.mark.parametrize("name", IDS)
def test_edges_are_sorted_and_columns_find_theirs(name):
    edge_index, num_nodes = CASES[name]
    structure = SimplicialStructure(edge_index, num_nodes)
    expected = sorted(sorted(each) for each in edge_index.t().tolist())
    assert structure.edges.t().tolist() == expected
    x = torch.randn(2, edge_index.size(1), 3)
    flow = structure.to_edges(x)
    for column, (i, j) in enumerate(edge_index.t().tolist()):
        place = expected.index(sorted((i, j)))
        sign = 1 if i < j else -1
        torch.testing.assert_close(flow[:, place], sign * x[:, column])
    torch.testing.assert_close(structure.to_columns(flow), x)


def test_given_triangles_keep_their_order():
    edge_index, num_nodes = CASES["complete"]
    triangles = torch.tensor([[5, 2], [0, 1], [3, 0]])
    structure = SimplicialStructure(edge_index, num_nodes, triangles)
    assert structure.triangles.t().tolist() == [[0, 3, 5], [0, 1, 2]]
    _, b2 = dense_boundaries(structure.edges, num_nodes, triangles)
    assert torch.equal(dense(structure.triangle_boundary[0]), b2)


def test_forms_of_edge_index():
    edge_index = CASES["random"][0]
    expected = SimplicialStructure(edge_index, 9)
    strided = torch.stack([edge_index[0], edge_index[1]], dim=1).t()
    for form in (edge_index.int(), strided, EdgeIndex(edge_index, sparse_size=(9, 9))):
        structure = SimplicialStructure(form, 9)
        assert torch.equal(structure.edges, expected.edges)
        assert torch.equal(structure.triangles, expected.triangles)
        x = torch.eye(edge_index.size(1))
        assert torch.equal(structure.to_edges(x), expected.to_edges(x))
    assert SimplicialStructure(edge_index).num_nodes == int(edge_index.max()) + 1
    triangles = expected.triangles.int()[:, ::2].flip(0)
    assert SimplicialStructure(edge_index, 9, triangles).num_triangles == triangles.size(1)


def test_what_is_kept_may_serve_training_later():
    with torch.inference_mode():
        structure = SimplicialStructure(*CASES["random"])
        made = structure.edge_boundary, structure.triangle_boundary
    for matrix in (*made[0], *made[1]):
        assert not matrix.value.is_inference()


@pytest.mark.parametrize(
    ("edge_index", "triangles", "match"),
    [
        (once([(0, 1), (2, 2)]), None, "without self-loops"),
        (once([(0, 1), (1, 2), (0, 1)]), None, "1 repeated columns"),
        (once([(0, 1), (1, 2), (1, 0)]), None, "both directions of an edge"),
        (TRIANGLE, torch.tensor([[0], [1], [3]]), r"1 without, such as \[0, 1, 3\]"),
        (TRIANGLE, torch.tensor([[0, 2], [1, 1], [2, 0]]), r"\(got 1 repeated\)"),
    ],
)
def test_refuses(edge_index, triangles, match):
    with pytest.raises(ValueError, match=match):
        SimplicialStructure(edge_index, 4, triangles)
