"""Seeds of any size, and those of NumPy's generators, which are no `int`."""

import numpy as np
import pytest
import torch
from transport.problems import points

from jsem_pyg.neighbors import knn_graph
from jsem_pyg.transport import (
    MatrixCost,
    gromov_wasserstein,
    sampled_gromov_wasserstein,
)

x, y = points(9, 2, 0), points(8, 2, 1)
many = points(460, 2, 2)  # which are quantised

CALLS = {
    "gromov_wasserstein": lambda seed: gromov_wasserstein(
        many, y, seed=seed, max_iter=1, starts=["axes"], progress=False
    ).dense(),
    "sampled": lambda seed: sampled_gromov_wasserstein(
        torch.cdist(x, x), torch.cdist(y, y), seed=seed, max_iter=2
    ).dense(),
    "MatrixCost": lambda seed: MatrixCost(rank=4, seed=seed)(torch.eye(600)).x,
    "hnsw": lambda seed: knn_graph(many, 3, index="hnsw", seed=seed, progress=False)[0],
    "ivf": lambda seed: knn_graph(many, 3, index="ivf", seed=seed, progress=False)[0],
}


@pytest.mark.parametrize("name", CALLS)
def test_seeds_of_numpy_are_seeds(name):
    call = CALLS[name]
    for seed in (np.int64(3), np.uint8(255)):
        assert torch.equal(call(seed), call(int(seed)))


@pytest.mark.parametrize("seed", [2**31 - 1, 2**32, 2**63, 2**64 - 1, 2**64])
@pytest.mark.parametrize("name", CALLS)
def test_seeds_may_be_large(name, seed):
    assert torch.isfinite(CALLS[name](seed)).all()
