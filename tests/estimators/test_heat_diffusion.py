import numpy as np
import pandas as pd
import torch
from estimators.estimator_cases import NUM_FITTED, NUM_NEW, blobs
from torch_geometric.data import Data

from jsem_pyg.estimators import HeatDiffusion
from jsem_pyg.neighbors import NeighborIndex
from jsem_pyg.training import select_time

X, _ = blobs(NUM_FITTED, dtype=np.float64)
X_NEW, _ = blobs(NUM_NEW, seed=1, dtype=np.float64)


def index():
    return NeighborIndex(torch.from_numpy(X), 8)


def test_in_no_time_everything_stays():
    heat = HeatDiffusion(8, t=0).fit(X)
    np.testing.assert_allclose(heat.embedding_, X, rtol=1e-12)
    np.testing.assert_array_equal(heat.transform(X_NEW), X_NEW)


def test_auto_is_the_time_that_the_triplet_loss_likes():
    heat = HeatDiffusion(8, random_state=5).fit(X)
    edges = {"edge_index": index().edge_index, "edge_weight": index().edge_weight}
    chosen = select_time(Data(x=torch.from_numpy(X), **edges), normalization="rw", seed=5)
    assert heat.t_ == chosen.t


def test_frames_come_out_of_frames():
    frame = pd.DataFrame(X, columns=list("abcdef"), index=range(5, NUM_FITTED + 5))
    heat = HeatDiffusion(8, t=1.0).set_output(transform="pandas").fit(frame)
    for out in (heat.transform(frame), heat.fit_transform(frame)):
        assert list(out.columns) == list("abcdef")
        assert out.index.equals(frame.index)
