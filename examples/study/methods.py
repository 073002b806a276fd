"""The methods of the study, all of one signature.

    method(data, num_classes, seed) -> embedding [N, D'], which k-means clusters as it stands,
                                    or labelling [N] of integers

`data` holds x [N, D], edge_index [2, E] and edge_weight [E], and no labels. To add a method, write
such a function and name it in `make_methods`. Hyper-parameters are chosen without labels, or are
what the authors published:

| method | hyper-parameters |
| --- | --- |
| raw, centred | none |
| heat, centred heat | t of 0.5 ... 20 by the triplet loss on the graph (`select_time`) |
| PPR | alpha 0.1, 10 steps: APPNP, section 5 |
| heat, PPR by modularity | centred; of ten times (alphas) that of the most modular clusters |
| SSGC | alpha 0.05, 16 steps: the authors' code for Cora and CiteSeer |
| GDC | PageRank with alpha 0.15, 64 edges a node: the defaults of PyG's transform |
| UMAP | 5-d, 15 neighbours, cosine, min_dist 0 (the manual on clustering), rest default |
| heat + UMAP | both of the above |
| spectral | as many eigenvectors as classes; a graph in parts regularised by its mean degree |
| Leiden | the resolution that gives as many communities as classes |
| sigmoid, rank rule | augmented curvature, standardised or ranked; floor 0.01; t as for heat |
| community rule | Leiden as above; edges between communities times 0.1; t as for heat |
| self-training ... | `fit`'s defaults for a `DiffusionClassifier`: t by modularity, four rounds |
| learned ... | `fit`'s defaults (100 epochs, triplet loss on the graph), t from heat's |

The constants of self-training are: half of a cluster teaches, balance 0.5, sharpness 2, floor 0.05,
four rounds. On which sets they were chosen, and what else was seen, is in the table of README.md.

Only raw, centred and UMAP do not look at the given graph; on points their graph would be the same,
on Cora and CiteSeer they know the words alone.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import clusterers
import filters
import learned
import rules
from torch import Tensor
from torch_geometric.data import Data


class Method(NamedTuple):
    """A method, and whether its seed matters (if not, it runs once and k-means has the seeds)."""

    run: Callable[[Data, int, int], Tensor]
    seeded: bool = True


def make_methods(epochs: int = 100, umap_epochs: int | None = None) -> dict[str, Method]:
    """All methods by name, in the order of the table."""
    return {
        "raw": Method(filters.raw, seeded=False),
        "centred": Method(filters.centred, seeded=False),
        "heat": Method(filters.heat),
        "centred heat": Method(filters.centred_heat),
        "PPR": Method(filters.ppr, seeded=False),
        "heat, time by modularity": Method(clusterers.heat_by_modularity),
        "PPR, alpha by modularity": Method(clusterers.ppr_by_modularity),
        "SSGC": Method(filters.ssgc, seeded=False),
        "GDC": Method(filters.gdc, seeded=False),
        "UMAP": Method(partial(clusterers.umap, epochs=umap_epochs)),
        "heat + UMAP": Method(partial(clusterers.heat_umap, epochs=umap_epochs)),
        "spectral": Method(clusterers.spectral),
        "Leiden": Method(clusterers.leiden),
        "sigmoid rule": Method(rules.sigmoid_curvature),
        "rank rule": Method(rules.rank_curvature),
        "community rule": Method(rules.community_damped),
        "self-training": Method(learned.self_training),
        "isotropic self-training": Method(learned.isotropic_self_training),
        "learned t": Method(partial(learned.learned_time, epochs=epochs)),
        "learned curvature": Method(partial(learned.learned_curvature, epochs=epochs)),
        "learned geometry": Method(partial(learned.learned_geometry, epochs=epochs)),
    }
