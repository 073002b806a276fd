"""Stage 10: model, data -> trained model, history.

`fit` trains a `DiffusionClassifier` on its own diffused probabilities, and any other model by
triplets of nodes or, with ``loss="signal"``, on signals `data.y`. Two functions for a few labels
have no model: `classify_by_heat` fits a logistic regression to features that were diffused once,
and `propagate_labels` spreads the labels along edges whose conductance it learns.
"""

from .choose_num_classes import choose_num_classes
from .fit import fit
from .heat_classifier import classify_by_heat, select_time
from .history import FitResult
from .label_propagation import propagate_labels
from .signals import interpolate
from .triplets import GraphTriplets, Triplets

__all__ = [
    "FitResult",
    "GraphTriplets",
    "Triplets",
    "choose_num_classes",
    "classify_by_heat",
    "fit",
    "interpolate",
    "propagate_labels",
    "select_time",
]
