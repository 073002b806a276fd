import pytest
import torch
from scipy.linalg import expm
from sklearn.linear_model import LogisticRegression
from training.training_cases import two_clusters

from jsem_pyg.training import classify_by_heat, select_time


def few(y, each=2):
    labels = torch.full_like(y, -1)
    for label in y.unique():
        labels[(y == label).nonzero().flatten()[:each]] = label
    return labels


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_is_logistic_regression_of_heat(dtype):
    """Against dense algebra."""
    data = two_clusters()
    data.x = data.x.to(dtype)
    labels = few(data.y)
    found = classify_by_heat(data, labels, t=1.5)
    w = torch.zeros(24, 24, dtype=torch.float64)
    w[data.edge_index[0], data.edge_index[1]] = data.edge_weight.double()
    scale = w.sum(1).rsqrt()
    x = (data.x - data.x.mean(0)).double()
    heat = (
        expm(-1.5 * (torch.eye(24) - scale[:, None] * w * scale).numpy())
        @ torch.cat([x, 1.5 * x.square().sum(1).mean().sqrt().expand(24, 1)], dim=1).numpy()
    )
    z = torch.nn.functional.normalize(torch.from_numpy(heat)).numpy()
    known = (labels >= 0).numpy()
    model = LogisticRegression(C=100.0, max_iter=1000).fit(z[known], labels.numpy()[known])
    assert found.probabilities.dtype == dtype
    assert found.t == 1.5
    wanted = torch.from_numpy(model.predict_proba(z))
    torch.testing.assert_close(found.probabilities.double(), wanted, rtol=1e-2, atol=1e-3)


def test_a_shift_of_all_features_changes_nothing():
    data = two_clusters()
    labels = few(data.y)
    expected = classify_by_heat(data, labels, t=1.5).probabilities
    data.x = data.x + 1e4
    found = classify_by_heat(data, labels, t=1.5).probabilities
    torch.testing.assert_close(found, expected, atol=0.01, rtol=0)


def test_time_is_chosen_and_nothing_is_changed():
    data = two_clusters()
    before = data.clone()
    found = classify_by_heat(data, few(data.y), seed=3)
    assert torch.equal(data.x, before.x)
    x = data.x - data.x.mean(0)
    constant = 1.5 * x.square().sum(1).mean().sqrt()
    data.x = torch.cat([x, constant.expand(24, 1)], dim=1)
    assert found.t == select_time(data, seed=3).t
    assert (found.probabilities.argmax(-1) == data.y).float().mean() > 0.9
    assert torch.equal(data.y, before.y)
