"""What is made of a few labels: functions (data, known, number of classes, seed) -> classes [N].

`known` [N] is -1 where no label is given. `few_labels.py` says where settings come from.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from edge_geometry import with_geometry
from filters import adjacency
from learned import isotropic_self_training, self_training, trained
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.nn import APPNP, GCNConv

from jsem_pyg.training import classify_by_heat
from jsem_pyg.transforms import FormanCurvature

REFERENCE = "heat + logistic regression"
TRIPLETS = "triplets + logistic regression"
OURS, ABLATION = "self-training, anisotropic", "self-training, isotropic"

Predict = Callable[[Data, Tensor, int, int], Tensor]


def logistic_regression(data: Data, known: Tensor, num_classes: int, seed: int) -> Tensor:
    """On the features."""
    return _regress(data.x, known)


def heat_regression(data: Data, known: Tensor, num_classes: int, seed: int) -> Tensor:
    """On the features after isotropic heat; t by the unsupervised triplet loss."""
    return classify_by_heat(data, known, seed=seed).probabilities.argmax(-1)


def label_spreading(data: Data, known: Tensor, num_classes: int, seed: int) -> Tensor:
    """Zhou et al. 2004 with alpha = 0.9, which is personalised PageRank of the labels."""
    labels = F.one_hot(known.clamp(min=0), num_classes) * (known >= 0)[:, None]
    spread = APPNP(K=50, alpha=0.1, add_self_loops=False)
    return spread(labels.float(), adjacency(data)).argmax(-1)


def gcn(data: Data, known: Tensor, num_classes: int, seed: int) -> Tensor:
    """Two layers as published (Kipf and Welling 2017), 200 epochs."""
    seed_everything(seed)
    graph, train = adjacency(data), known >= 0
    first, last = GCNConv(data.x.size(1), 64), GCNConv(64, num_classes)
    optimizer = torch.optim.Adam(
        [{"params": first.parameters(), "weight_decay": 5e-4}, {"params": last.parameters()}],
        lr=0.01,
    )

    def logits(drop: bool) -> Tensor:
        h = first(F.dropout(data.x, 0.5, drop), graph).relu()
        return last(F.dropout(h, 0.5, drop), graph)

    for _ in range(200):
        optimizer.zero_grad()
        F.cross_entropy(logits(True)[train], known[train]).backward()
        optimizer.step()
    with torch.no_grad():
        return logits(False).argmax(-1)


def triplets(data: Data, known: Tensor, num_classes: int, seed: int, epochs: int = 100) -> Tensor:
    """A conductance of curvature and geometry that triplets of known labels teach.

    A triplet needs two nodes of one class.
    """
    data = with_geometry(FormanCurvature()(data))
    data.y = known
    z = trained(data, "mlp", data.edge_attr.size(1), seed, epochs, sampler="labels")
    return _regress(z, known)


def anisotropic(data: Data, known: Tensor, num_classes: int, seed: int) -> Tensor:
    """Self-training from the labels that are known."""
    return self_training(data, num_classes, seed, labels=known)


def isotropic(data: Data, known: Tensor, num_classes: int, seed: int) -> Tensor:
    """The same on edges that all conduct alike."""
    return isotropic_self_training(data, num_classes, seed, labels=known)


def _regress(x: Tensor, known: Tensor) -> Tensor:
    train = (known >= 0).numpy()
    model = LogisticRegression(C=100.0, max_iter=1000)  # rows of length one: less shrinkage
    model.fit(x.numpy()[train], known.numpy()[train])
    return torch.from_numpy(model.predict(x.numpy()))


METHODS: dict[str, Predict] = {
    "logistic regression": logistic_regression,
    REFERENCE: heat_regression,
    "label spreading": label_spreading,
    "GCN": gcn,
    TRIPLETS: triplets,
    ABLATION: isotropic,
    OURS: anisotropic,
}
