"""Stage 7, model, data -> trained model, history.

`fit` trains a `DiffusionClassifier` by `self_train`: clusters teach a classifier, whose
probabilities diffuse and teach it anew. With any other model it is a loop, not a framework: an
epoch draws triplets of nodes (`GraphTriplets` from the graph alone, `LabelTriplets` from labels),
passes once over the whole graph, compares the triplets' features (`TripletLoss`) and makes one
step. It returns a `FitResult` and writes no file unless given a path; `save_checkpoint` and
`load_checkpoint` are how it writes and reads one.
"""

from ..evaluation import modularity
from .checkpoint import load_checkpoint, save_checkpoint
from .fit import fit
from .history import EpochEnd, EpochRow, FitResult
from .losses import TripletLoss
from .self_training import self_train
from .time_selection import SelectedTime, select_time
from .triplets import GraphTriplets, LabelTriplets, Triplets, TripletSampler

__all__ = [
    "EpochEnd",
    "EpochRow",
    "FitResult",
    "GraphTriplets",
    "LabelTriplets",
    "SelectedTime",
    "TripletLoss",
    "TripletSampler",
    "Triplets",
    "fit",
    "load_checkpoint",
    "modularity",
    "save_checkpoint",
    "select_time",
    "self_train",
]
