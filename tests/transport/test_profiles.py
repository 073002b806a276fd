import pytest
import torch
from dense import exact_heat_diffusion
from tiny_graphs import ring
from transport.problems import random_graph

from jsem_pyg.transport.profiles import comparable, heat_profiles, overlap_weights


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_permutation_of_nodes_permutes_profiles(dtype):
    edge_index = random_graph(40, 6)
    weight = overlap_weights(edge_index, 40).to(dtype)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(1))
    shuffled = torch.randperm(edge_index.size(1), generator=torch.Generator().manual_seed(2))
    first = heat_profiles(edge_index, 40, weight)
    second = heat_profiles(order[edge_index][:, shuffled], 40, weight[shuffled])
    assert first.dtype == dtype
    assert first.std(0).max() > 0.1
    torch.testing.assert_close(second[order], first, atol=2e-3, rtol=1e-3)


def test_return_probabilities_are_those_of_the_matrix_exponential():
    edge_index = random_graph(40, 6)
    found = heat_profiles(edge_index, 40, torch.ones(edge_index.size(1)).double())
    eye = torch.eye(40, dtype=torch.float64)
    sums = (1.0, 2.5, 4.0, 8.5, 10.0, 16.0, 30.5, 32.0, 38.0, 60.0)
    for column, t in enumerate((0.5, 2.0, 8.0, 30.0, *sums)):
        exact = exact_heat_diffusion(eye, edge_index, t=t).diagonal()
        torch.testing.assert_close(found[:, column].exp(), exact, atol=1e-4, rtol=1e-3)


@pytest.mark.parametrize("name", ["no edges", "one node", "isolated", "ring", "complete"])
def test_awkward_graphs_have_finite_profiles_and_no_features_from_rounding(name):
    edge_index, num_nodes = {
        "no edges": (torch.empty(2, 0, dtype=torch.int64), 4),
        "one node": (torch.empty(2, 0, dtype=torch.int64), 1),
        "isolated": (torch.tensor([[0, 1], [1, 0]]), 5),
        "ring": ring(64),
        "complete": ((1 - torch.eye(9)).nonzero().T, 9),
    }[name]
    found = heat_profiles(edge_index, num_nodes)
    assert found.isfinite().all()
    source, target = comparable(found, found)
    assert source.isfinite().all()
    if name == "isolated":
        assert (source[0] - source[3]).norm() > 1
    else:
        assert source.abs().max() == target.abs().max() == 0  # nothing tells nodes apart


@pytest.mark.parametrize("ridge", [None, 0.3])
def test_comparable_features_have_one_scale_for_both(ridge):
    generator = torch.Generator().manual_seed(0)
    scale = torch.tensor([1.0, 100.0, 1e-5])
    both = torch.randn(70, 3, generator=generator) * scale + 7
    both[:, 1] += 90 * both[:, 0]
    source, target = comparable(both[:30], both[30:], ridge=ridge)
    found = torch.cat([source, target])
    assert found.shape == (70, 2)  # the third one hardly varies
    torch.testing.assert_close(found.mean(0), torch.zeros(2), atol=1e-5, rtol=0)
    covariance = found.T @ found / 70
    if ridge is None:
        torch.testing.assert_close(covariance.diagonal(), torch.ones(2))
        assert covariance[0, 1] > 0.3
    else:
        torch.testing.assert_close(covariance, covariance.diagonal().diag(), atol=1e-5, rtol=0)
        assert (covariance.diagonal() < 1).all()
