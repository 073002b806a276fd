import pytest
import torch

from jsem_pyg.neighbors import knn_search


def test_opposite_points_are_at_cosine_distance_two():
    _, distance = knn_search(torch.tensor([[0.1, 0.3], [-0.7, -2.1]]), 1)
    assert distance.max() <= 2
    torch.testing.assert_close(distance, torch.full((2, 1), 2.0))


def test_points_that_require_a_gradient_are_detached():
    x = torch.randn(6, 2, generator=torch.Generator().manual_seed(0)).requires_grad_()
    _, distance = knn_search(x, 2)
    assert not distance.requires_grad


@pytest.mark.parametrize(
    ("x", "k", "options", "message"),
    [
        (torch.randn(5, 2), 5, {}, "got k=5 for 5 points"),
        (torch.eye(3)[:, :2], 1, {}, "got 1 of 3 rows.* or use metric='l2'"),
        (torch.randn(5, 2), 1, {"recall_target": 1.01}, "'recall_target'"),
        (2e15 * torch.ones(5, 2), 1, {}, "'x' to lie within 1e15 .* in row 0"),
        (1e-16 * torch.eye(5), 1, {"metric": "l2"}, "'x' to have entries of 1e-15"),
    ],
)
def test_refuses(x, k, options, message):
    with pytest.raises(ValueError, match=message):
        knn_search(x, k, **options)
