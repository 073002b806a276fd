import logging
import math

import pytest
import torch

from jsem_pyg.evaluation import clustering_scores


def blobs(num_classes=3, size=20, dim=6, spread=0.05):
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(num_classes).repeat_interleave(size)
    x = torch.eye(dim)[y] + spread * torch.randn(len(y), dim, generator=generator)
    return x, y


def test_separated_blobs_are_found_in_every_seed():
    x, y = blobs()
    scores = clustering_scores(x, y)
    assert [run.seed for run in scores.per_seed] == [0, 1, 2, 3, 4]
    assert [scores.ari, scores.nmi, scores.acc] == pytest.approx([1, 1, 1])
    assert [scores.ari_std, scores.nmi_std, scores.acc_std] == pytest.approx([0, 0, 0])


def test_means_and_deviations_follow_from_the_seeds():
    x, y = torch.randn(60, 4, generator=torch.Generator().manual_seed(1)), torch.arange(60) % 3
    scores = clustering_scores(x, y, seeds=2, n_init=1)
    one, other = (run.ari for run in scores.per_seed)
    assert scores.ari == pytest.approx((one + other) / 2)
    assert scores.ari_std == pytest.approx(abs(one - other) / 2)
    assert str(scores).startswith(f"ARI {scores.ari:.3f} ± {scores.ari_std:.3f}, NMI ")


def test_coinciding_points_are_scored_and_logged(caplog):
    with caplog.at_level(logging.WARNING):
        scores = clustering_scores(torch.ones(6, 2), torch.arange(6) % 3, seeds=1)
    assert scores.ari == 0
    assert scores.acc == pytest.approx(1 / 3)
    assert "1 clusters, not 3 (seed 0)" in caplog.text


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_dtypes_arrays_and_tensors_that_require_gradients(dtype):
    x, y = blobs()
    assert clustering_scores(x.to(dtype).requires_grad_(), y.int(), seeds=1).ari == pytest.approx(1)
    frozen = x.double().numpy()
    frozen.flags.writeable = False  # as a memory-mapped file is
    scores = clustering_scores(frozen, y.numpy(), num_clusters=3, seeds=[2**32 - 1])
    assert scores.ari == pytest.approx(1)
    assert math.isfinite(scores.nmi)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_clusters": 5}, "<= 4 points .got 5"),
        ({"seeds": ()}, "'seeds' to hold at least one"),
    ],
)
def test_bad_input_is_refused(change, message):
    arguments = {"x": torch.rand(4, 2), "y": torch.tensor([0, 0, 1, 1]), **change}
    with pytest.raises(ValueError, match=message):
        clustering_scores(**arguments)
