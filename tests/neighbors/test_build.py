import pytest
import torch
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from jsem_pyg.neighbors import knn_graph, knn_search


def points(n=60, dim=4, seed=0):
    return torch.randn(n, dim, generator=torch.Generator().manual_seed(seed))


def clusters(num_clusters=7, size=6, seed=0, spread=0.1, dim=3):
    """Clusters far apart: with fewer neighbours than points in each, a graph in pieces."""
    generator = torch.Generator().manual_seed(seed)
    center = 20 * torch.randn(num_clusters, dim, generator=generator)
    noise = spread * torch.randn(num_clusters * size, dim, generator=generator)
    return center.repeat_interleave(size, 0) + noise


def label_of(edge_index, n):
    ones = torch.ones(edge_index.size(1)).numpy()
    return connected_components(coo_array((ones, edge_index.numpy()), shape=(n, n)))


def dense(edge_index, edge_weight, n):
    return edge_weight.new_zeros(n, n).index_put(tuple(edge_index), edge_weight)


def pairs(edge_index):
    return {(i, j) for i, j in edge_index.T.tolist() if i < j}


@pytest.mark.parametrize("connect", [True, False])
@pytest.mark.parametrize(
    ("kernel", "symmetrize"),
    [("gaussian", "max"), ("self_tuning", "mean"), ("cosine", "mutual"), (None, "max")],
)
def test_laws_of_the_graph(kernel, symmetrize, connect):
    x = points()
    edge_index, edge_weight = knn_graph(
        x, k=3, kernel=kernel, symmetrize=symmetrize, connect=connect
    )
    key = edge_index[0] * 60 + edge_index[1]
    assert (key.diff() > 0).all()  # sorted, nothing twice
    assert (edge_index[0] != edge_index[1]).all()
    weight = dense(edge_index, edge_weight, 60)
    assert torch.equal(weight, weight.T)
    assert edge_weight.dtype == torch.float32
    assert ((edge_weight > 0) & (edge_weight <= 1)).all()
    if symmetrize != "mutual":
        assert edge_index[0].bincount(minlength=60).min() >= 3


@pytest.mark.parametrize("symmetrize", ["max", "mean", "mutual"])
def test_edges_are_the_neighbors(symmetrize):
    x = points()
    neighbor, _ = knn_search(x, 4)
    found = torch.zeros(60, 60).scatter(1, neighbor, 1.0)
    expected = {"max": torch.maximum, "mean": lambda a, b: (a + b) / 2, "mutual": torch.minimum}
    edge_index, edge_weight = knn_graph(x, 4, kernel=None, symmetrize=symmetrize, connect=False)
    assert torch.equal(dense(edge_index, edge_weight, 60), expected[symmetrize](found, found.T))


def assert_joined(x, longest=1.0, k=3, **options):
    """The links between components are as long as their minimum spanning tree, or hardly longer."""
    n = x.size(0)
    apart, _ = knn_graph(x, k, **options, connect=False)
    joined, _ = knn_graph(x, k, **options, connect=True)
    count, label = label_of(apart, n)
    assert count > 2
    assert label_of(joined, n)[0] == 1
    links = pairs(joined) - pairs(apart)
    assert len(links) == count - 1
    assert pairs(apart) <= pairs(joined)
    is_cosine = options.get("metric") == "cosine"
    y = x / x.norm(dim=1, keepdim=True) if is_cosine else x
    distance = torch.cdist(y, y, compute_mode="donot_use_mm_for_euclid_dist")
    distance = distance.square() / 2 if is_cosine else distance
    key = torch.from_numpy(label[:, None] * count + label).long().flatten()
    between = torch.full((count * count,), torch.inf, dtype=x.dtype)
    between = between.scatter_reduce(0, key, distance.flatten(), "amin").view(count, count)
    shortest = minimum_spanning_tree(between.fill_diagonal_(0).numpy()).sum()
    length = sum(float(distance[i, j]) for i, j in links)
    assert shortest * (1 - 1e-5) <= length <= longest * shortest * (1 + 1e-5)


@pytest.mark.parametrize("metric", ["cosine", "l2"])
@pytest.mark.parametrize("symmetrize", ["max", "mutual"])
@pytest.mark.parametrize("seed", range(2))
def test_links_are_a_minimum_spanning_tree_of_the_components(seed, symmetrize, metric):
    assert_joined(clusters(seed=seed).double(), symmetrize=symmetrize, metric=metric)


LINKS = "jsem_pyg.neighbors.component_links"


@pytest.mark.parametrize(("seed", "chunk"), [(0, 17), (1, 100), (2, 1024)])
def test_links_of_many_components_are_searched_in_chunks(seed, chunk, monkeypatch):
    monkeypatch.setattr(f"{LINKS}._QUERIES", chunk)
    monkeypatch.setattr(f"{LINKS}._BASE", 2 * chunk - 1)
    assert_joined(clusters(30, 20, seed, spread=0.5, dim=4), metric="l2")


def test_links_in_few_dimensions_are_found_by_a_tree(monkeypatch):
    """Components from below to above the number of points that it looks at."""
    monkeypatch.setattr("jsem_pyg.neighbors.tree_search._FEWEST_POINTS", 1)
    generator = torch.Generator().manual_seed(0)
    label = torch.arange(5).repeat_interleave(torch.tensor([6, 40, 80, 200, 277]))
    center = torch.tensor([[0.0, 0.0], [12, 0], [90, 0], [0, 90], [90, 90]])
    x = center[label] + torch.rand(603, 2, generator=generator)
    assert_joined(x, metric="l2", k=5)
    monkeypatch.setattr(f"{LINKS}._BUDGET", 0)
    assert_joined(x, 10.0, metric="l2", k=5)


@pytest.mark.parametrize("seed", range(3))
def test_within_a_budget_links_join_and_are_hardly_longer(seed, monkeypatch):
    monkeypatch.setattr(f"{LINKS}._BUDGET", 3 * 29 * 64 * 600)  # three points of each component
    assert_joined(clusters(30, 20, seed, spread=0.5, dim=4), 1.2, metric="l2")


def test_many_components_at_equal_distances_are_joined_without_cycles():
    # Pairs of points on a line, all pairs at the same distance from the next.
    x = torch.stack([torch.arange(20.0) * 3, torch.arange(20.0) * 3 + 1], 1).reshape(-1, 1)
    edge_index, _ = knn_graph(x, 1, metric="l2", kernel=None)
    assert edge_index.size(1) == 2 * (20 + 19)
    assert label_of(edge_index, 40)[0] == 1


@pytest.mark.parametrize("kernel", ["gaussian", "self_tuning"])
def test_points_that_are_all_equal(kernel):
    edge_index, edge_weight = knn_graph(torch.ones(40, 3), 5, kernel=kernel)
    assert (edge_weight == 1).all()
    assert label_of(edge_index, 40)[0] == 1


def test_a_link_has_the_weight_of_its_length():
    x = torch.tensor([[0.0], [1.0], [3.0], [4.0]])
    edge_index, edge_weight = knn_graph(x, 1, metric="l2")
    weight = dense(edge_index, edge_weight, 4)
    assert float(weight[1, 2]) == pytest.approx(torch.exp(torch.tensor(-2.0)).item())


@pytest.mark.parametrize("kernel", ["gaussian", "self_tuning", "cosine", None])
@pytest.mark.parametrize("n", [0, 1])
def test_a_point_alone_has_no_edges(n, kernel):
    for batch in (None, torch.zeros(n, dtype=torch.int64)):
        edge_index, edge_weight = knn_graph(points(n).double(), kernel=kernel, batch=batch)
        assert edge_index.shape == (2, 0)
        assert edge_index.dtype == torch.int64
        assert edge_weight.shape == (0,)
        assert edge_weight.dtype == torch.float64


@pytest.mark.parametrize("kernel", ["gaussian", "self_tuning"])
@pytest.mark.parametrize("count", [6, 11])  # k copies of each point, and 2 k
@pytest.mark.parametrize("unit", [1.0, 1000.0])
def test_links_between_groups_of_copies_weigh_by_their_length(kernel, count, unit):
    places = unit * torch.tensor([0.0, 1.0, 2.5, 5.5, 15.5]).unsqueeze(1)  # 1, 1.5, 3 and 10 apart
    edge_index, edge_weight = knn_graph(
        places.repeat_interleave(count, 0), k=5, metric="l2", kernel=kernel
    )
    group = edge_index // count
    factor = 2 if kernel == "gaussian" else 1
    gaps = torch.tensor([1.0, 1.5, 3.0, 10.0])
    for place, gap in enumerate(gaps):  # the lower median is 1.5
        found = edge_weight[(group[0] == place) & (group[1] == place + 1)]
        expected = torch.exp(-(gap**2) / 1.5**2 / factor).clamp(min=1e-6)
        torch.testing.assert_close(found, expected.expand(1), rtol=1e-5, atol=0)
    assert (edge_weight[group[0] == group[1]] == 1).all()


@pytest.mark.parametrize("unit", [1.0, 1000.0])
def test_one_group_of_copies_beside_singles_has_their_width(unit):
    singles = points(40)
    alone = knn_graph(unit * singles, k=5, metric="l2")
    edge_index, edge_weight = knn_graph(
        unit * torch.cat([singles, 50 + torch.zeros(8, 4)]), k=5, metric="l2"
    )
    kept = (edge_index < 40).all(0)
    assert torch.equal(edge_index[:, kept], alone[0])
    torch.testing.assert_close(edge_weight[kept], alone[1], rtol=1e-5, atol=1e-6)
    link = (edge_index[0] < 40) & (edge_index[1] >= 40)
    assert edge_weight[link].tolist() == pytest.approx([1e-6])
