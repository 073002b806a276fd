import numpy as np
import pandas as pd
import pytest
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


@pytest.mark.parametrize("t", [1e-3, 0.3, 5.0, 40.0, 1e3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_new_points_have_the_heat_of_one_way_edges(t, dtype):
    w = torch.zeros(NUM_FITTED + NUM_NEW, NUM_FITTED + NUM_NEW, dtype=torch.float64)
    w[*index().edge_index] = index().edge_weight.double()
    neighbor, weight = index().links(torch.from_numpy(X_NEW))
    w[torch.arange(NUM_FITTED, len(w))[:, None], neighbor] = weight.double()
    walk = w / w.sum(1, keepdim=True)
    both = torch.from_numpy(np.concatenate([X, X_NEW]))
    expected = (torch.matrix_exp(t * (walk - torch.eye(len(w)))) @ both).numpy()
    heat = HeatDiffusion(8, metric="cosine", scale=None, t=t).fit(X.astype(dtype))
    np.testing.assert_allclose(heat.embedding_, expected[:NUM_FITTED], atol=2e-5)
    np.testing.assert_allclose(
        heat.transform(X_NEW.astype(dtype)), expected[NUM_FITTED:], atol=2e-5
    )


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
