import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from jsem_pyg.neighbors import knn_search


def all_distances(x, metric):
    x = x.double()
    if metric == "cosine":
        x = x / x.norm(dim=1, keepdim=True)
    squared = (x[:, None] - x[None]).square().sum(-1)
    return squared / 2 if metric == "cosine" else squared.sqrt()


def brute_force(x, k, metric):
    distance = all_distances(x, metric).fill_diagonal_(torch.inf)
    distance, neighbor = distance.sort(dim=1, stable=True)
    return neighbor[:, :k], distance[:, :k]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("metric", ["cosine", "l2"])
@pytest.mark.parametrize(("n", "k"), [(40, 1), (40, 5), (40, 39), (200, 4)])
def test_equals_brute_force(metric, dtype, n, k):
    x = torch.randn(n, 6, generator=torch.Generator().manual_seed(0)).to(dtype)
    neighbor, distance = knn_search(x, k, metric)
    expected_neighbor, expected_distance = brute_force(x, k, metric)
    assert neighbor.dtype == torch.int64
    assert distance.dtype == dtype
    assert torch.equal(neighbor, expected_neighbor)
    torch.testing.assert_close(distance, expected_distance.to(dtype))


@given(
    seed=st.integers(0, 10**6), n=st.integers(2, 40), k=st.integers(1, 39), copies=st.floats(0, 1)
)
@settings(max_examples=20, deadline=None)
def test_duplicates_never_leave_a_self_loop_nor_a_wrong_neighbor(seed, n, k, copies):
    k = min(k, n - 1)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 3, generator=generator)
    x[torch.rand(n, generator=generator) < copies] = x[0].clone()
    neighbor, distance = knn_search(x, k, "l2")
    assert neighbor.shape == (n, k)
    assert not (neighbor == torch.arange(n)[:, None]).any()
    assert all(row.unique().numel() == k for row in neighbor)
    # Which of several duplicates is chosen is free, their distance is not.
    torch.testing.assert_close(distance.double(), brute_force(x, k, "l2")[1], atol=1e-6, rtol=1e-5)
    found = all_distances(x, "l2").gather(1, neighbor)
    torch.testing.assert_close(distance.double(), found, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(
    ("dtype", "factor"),
    [(torch.float32, 2e14), (torch.float32, 1e-15), (torch.float64, 2e14), (torch.float64, 1e-15)],
)
@pytest.mark.parametrize("metric", ["cosine", "l2"])
@pytest.mark.parametrize("n", [30, 140])  # by all pairs, and by a search
def test_the_unit_of_the_points_does_not_matter(n, metric, dtype, factor):
    x = torch.randn(n, 3, generator=torch.Generator().manual_seed(0)).to(dtype)
    neighbor, distance = knn_search(x, 4, metric)
    neighbor_scaled, distance_scaled = knn_search(x * factor, 4, metric)
    assert torch.equal(neighbor, neighbor_scaled)
    unit = factor if metric == "l2" else 1
    torch.testing.assert_close(distance_scaled / unit, distance, rtol=1e-4, atol=1e-6)


def test_opposite_points_are_at_cosine_distance_two():
    _, distance = knn_search(torch.tensor([[0.1, 0.3], [-0.7, -2.1]]), 1)
    assert distance.max() <= 2
    torch.testing.assert_close(distance, torch.full((2, 1), 2.0))


def test_points_that_require_a_gradient_are_detached():
    x = torch.randn(6, 2, generator=torch.Generator().manual_seed(0)).requires_grad_()
    _, distance = knn_search(x, 2)
    assert not distance.requires_grad


@pytest.mark.parametrize(
    ("x", "k", "options", "error", "message"),
    [
        (torch.randn(5, 2), 5, {}, ValueError, "got k=5 for 5 points"),
        (torch.randn(0, 2), 1, {}, ValueError, "got k=1 for 0 points"),
        (torch.eye(3)[:, :2], 1, {}, ValueError, "got 1 of 3 rows.* or use metric='l2'"),
        (torch.randn(5, 2), 1, {"recall_target": 1.01}, ValueError, "'recall_target'"),
        (
            torch.randn(5, 2),
            1,
            {"index": "annoy"},
            ValueError,
            "'index' to be one of 'auto'",
        ),
        (2e15 * torch.ones(5, 2), 1, {}, ValueError, "'x' to lie within 1e15 .* in row 0"),
        (1e-16 * torch.eye(5), 1, {"metric": "l2"}, ValueError, "'x' to have entries of 1e-15"),
        (torch.tensor([[1.0], [torch.nan]]), 1, {}, ValueError, "'x' to be finite .*in row 1"),
        (torch.ones(5), 1, {}, ValueError, r"'x' to have shape \[N, F\]"),
        (torch.ones(5, 2, dtype=torch.int64), 1, {}, TypeError, "'x' to be a floating-point"),
    ],
)
def test_refuses(x, k, options, error, message):
    with pytest.raises(error, match=message):
        knn_search(x, k, **options)
