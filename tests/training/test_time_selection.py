import pytest
import torch
from training.training_cases import two_clusters

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.training import GraphTriplets, select_time

TIMES = [0.1, 2.0, 50.0]


def test_the_losses_are_those_of_isotropic_diffusion():
    data = two_clusters()
    chosen = select_time(data, TIMES, seed=3)
    graph = data.edge_index, data.edge_weight
    triplets = GraphTriplets(*graph, 24).sample(100_000, torch.Generator().manual_seed(0))
    for t in TIMES:
        z = torch.nn.functional.normalize(heat_diffusion(data.x, *graph, t))
        a, p, n = (z[each] for each in triplets)
        loss = ((a - p).norm(dim=1) - (a - n).norm(dim=1) + 0.5).clamp(min=0).mean()
        assert chosen.losses[t] == pytest.approx(loss.item(), abs=0.02)  # by other triplets
    assert {type(each) for each in chosen.losses.values()} == {float}
    assert chosen.t == min(chosen.losses, key=chosen.losses.get)
