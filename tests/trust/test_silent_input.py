"""What one argument alone does not show: values that were taken, or failed, without a word."""

import pytest
import torch
from tiny_graphs import ring

from jsem_pyg.curvature import forman_curvature
from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.nn import DiffusionClassifier

EDGES, N = ring(4)  # columns 01, 12, 23, 30, then reversed


class TestSymmetry:
    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
    def test_small_weights_beside_a_large_one_are_looked_at(self, dtype):
        weight = torch.tensor([5, 1e6, 1e6, 1e6, 0, 1e6, 1e6, 1e6], dtype=dtype)
        if dtype == torch.bfloat16:  # a unit in the last place of 1e6 is 4096 there
            weight = torch.tensor([2e5, 1e6, 1e6, 1e6, 0, 1e6, 1e6, 1e6], dtype=dtype)
        with pytest.raises(ValueError, match=r"'edge_weight' to be the same.*2 entries"):
            heat_diffusion(torch.eye(N, dtype=dtype), EDGES, weight)

    def test_rounding_beside_a_large_weight_passes(self):
        weight = torch.tensor([1e-3, 1e6, 1e6, 1e6]).repeat(2)
        rounded = weight.clone()
        rounded[0] += 0.1  # two units in the last place of the largest
        mean = weight.clone()
        mean[[0, 4]] += 0.05
        expected = forman_curvature(EDGES, mean)
        torch.testing.assert_close(forman_curvature(EDGES, rounded), expected)


def test_a_refused_graph_leaves_no_trace_in_the_running_means():
    model = DiffusionClassifier(3, 2)
    model(torch.eye(4)[:, :3] + 0.1, EDGES)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with pytest.raises(ValueError, match="'edge_index' to hold"):
        model(torch.rand(4, 3), EDGES + 1)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
