"""Stage 10: model, data -> trained model, history.

`fit` picks one of two trainers by the model. A `DiffusionClassifier` trains itself: it learns from
clusters, and then from its own diffused probabilities. Any other model is trained by triplets, in a
loop, not a framework: an epoch draws triplets of nodes (`GraphTriplets`, or from labels), passes
once over the whole graph, compares the triplets' features by a margin loss and makes one step;
`PruneEdges` drops edges of low conductance on the way. With
``loss="signal"`` the same loop compares the model's output with signals `data.y`. All return a
`FitResult` and write no file unless given a path. Two functions for a few labels have no
model: `classify_by_heat` fits a logistic regression to features that were diffused once, and
`propagate_labels` spreads the labels along edges whose conductance it learns.
"""

from .choose_num_classes import choose_num_classes
from .fit import fit
from .heat_classifier import classify_by_heat
from .history import FitResult
from .interpolation import interpolate
from .label_propagation import propagate_labels
from .prune_edges import PruneEdges
from .samplers import GraphTriplets
from .time_selection import select_time
from .triplets import Triplets

__all__ = [
    "FitResult",
    "GraphTriplets",
    "PruneEdges",
    "Triplets",
    "choose_num_classes",
    "classify_by_heat",
    "fit",
    "interpolate",
    "propagate_labels",
    "select_time",
]
