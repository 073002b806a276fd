import itertools

import numpy as np
import pytest
import torch

from jsem_pyg.evaluation import partition_scores


@pytest.mark.parametrize("num_clusters", [2, 3, 4])
def test_accuracy_is_the_best_of_all_matchings(num_clusters):
    rng = np.random.default_rng(num_clusters)
    labels, clusters = rng.integers(3, size=30), rng.integers(num_clusters, size=30)
    best = 0
    for order in itertools.permutations(range(max(3, num_clusters)), num_clusters):
        best = max(best, int((np.array(order)[clusters] == labels).sum()))
    assert partition_scores(clusters, labels).acc == pytest.approx(best / 30)


def test_bad_input_is_refused():
    y = torch.tensor([0, 1])
    with pytest.raises(ValueError, match="Expected 'clusters' to have shape \\[2\\]"):
        partition_scores(torch.tensor([0, 1, 1]), y)
    with pytest.raises(TypeError, match="Expected 'clusters' to be of integer type"):
        partition_scores(torch.tensor([0.0, 1.0]), y)
    with pytest.raises(ValueError, match="at least one label"):
        partition_scores(y[:0], y[:0])
