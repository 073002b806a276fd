import pytest
from training.training_cases import two_clusters

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.training import GraphTriplets, select_time
from jsem_pyg.training.heat_classifier import NUM_TRIPLETS
from jsem_pyg.training.seeds import Purpose, derive_generator
from jsem_pyg.training.triplets import TripletLoss

TIMES = [0.1, 2.0, 50.0]


def test_the_losses_are_those_of_isotropic_diffusion():
    data = two_clusters()
    chosen = select_time(data, TIMES, seed=3)
    graph = data.edge_index, data.edge_weight
    generator = derive_generator(3, Purpose.VALIDATION)
    triplets = GraphTriplets(*graph, 24).sample(NUM_TRIPLETS, generator)
    for t in TIMES:
        z = heat_diffusion(data.x, *graph, t)
        assert chosen.losses[t] == pytest.approx(TripletLoss()(z, triplets).item(), abs=1e-5)
    assert {type(each) for each in chosen.losses.values()} == {float}
    assert chosen.t == min(chosen.losses, key=chosen.losses.get)
