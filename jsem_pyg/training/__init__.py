"""Stage 9: model, data -> trained model, history.

`fit` picks one of two trainers by the model. `self_train` is for a `DiffusionClassifier`: clusters
teach a classifier, whose probabilities diffuse and teach it anew. `fit_triplets` is for any other
model, and a loop, not a framework: an epoch draws triplets of nodes (`GraphTriplets` from the graph
alone, `LabelTriplets` from labels), passes once over the whole graph, compares the triplets'
features (`TripletLoss`) and makes one step; `PruneEdges` drops edges on the way that stay closed.
Both return a `FitResult` and write no file unless given a path. `propagate_labels` needs no model:
a few labels teach the edges along which they spread.
"""

from ..evaluation import modularity
from .choose_num_classes import ChosenClasses, choose_num_classes
from .fit import fit
from .graph_triplets import GraphTriplets
from .history import EpochEnd, EpochRow, FitResult, StatefulCallback
from .label_propagation import PropagatedLabels, propagate_labels
from .label_triplets import LabelTriplets
from .losses import TripletLoss
from .probability_of_none import probability_of_none
from .prune_edges import PruneEdges, PruningStep
from .self_training import self_train
from .time_selection import SelectedTime, select_time
from .triplet_training import fit_triplets
from .triplets import Triplets, TripletSampler

__all__ = [
    "ChosenClasses",
    "EpochEnd",
    "EpochRow",
    "FitResult",
    "GraphTriplets",
    "LabelTriplets",
    "PropagatedLabels",
    "PruneEdges",
    "PruningStep",
    "SelectedTime",
    "StatefulCallback",
    "TripletLoss",
    "TripletSampler",
    "Triplets",
    "choose_num_classes",
    "fit",
    "fit_triplets",
    "modularity",
    "probability_of_none",
    "propagate_labels",
    "select_time",
    "self_train",
]
