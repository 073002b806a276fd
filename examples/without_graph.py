"""Can new documents do without the graph?

A `DiffusionClassifier` learns from a few labels and the neighbour graph of the known documents.
New documents then get their class in several ways:

- joined: every new document is joined to its nearest known ones, and probabilities diffuse;
- its own features: `DiffusionClassifier.classify`, the linear map before the diffusion;
- distilled: a small MLP on the features, trained on the teacher's probabilities of the known
  documents (Hinton et al., "Distilling the knowledge in a neural network", 2015);
- labels alone: logistic regression on the labelled documents, without graph or teacher.

    python examples/without_graph.py                                # digits, no file needed
    python examples/without_graph.py --embeddings embeddings.npz    # with x [N, D] and y [N]
"""

import argparse
import logging
import time
from collections.abc import Callable

import pandas as pd
import torch
import torch.nn.functional as F
from helpers.points import load_points, parser_of
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch_geometric.data import Data

from jsem_pyg.neighbors import NeighborIndex
from jsem_pyg.nn import DiffusionClassifier
from jsem_pyg.training import fit


def distil(x: Tensor, probability: Tensor, epochs: int, seed: int) -> torch.nn.Module:
    """Train an MLP on the probabilities [N, C] that a teacher gives to points [N, D]."""
    torch.manual_seed(seed)
    student = torch.nn.Sequential(
        torch.nn.Linear(x.size(1), 256),
        torch.nn.ReLU(),
        torch.nn.Dropout(0.5),
        torch.nn.Linear(256, probability.size(1)),
    )
    optimizer = torch.optim.Adam(student.parameters(), lr=1e-3, weight_decay=1e-4)
    for _ in range(epochs):
        for batch in torch.randperm(len(x)).split(256):
            optimizer.zero_grad()
            F.cross_entropy(student(x[batch]), probability[batch]).backward()
            optimizer.step()
    return student.eval()


def compare(x: Tensor, y: Tensor, args: argparse.Namespace, seed: int) -> list[dict]:
    """Return a row for each way: accuracy on the new points, and the time for one of them."""
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    old, new = order.split([len(x) - len(x) // 5, len(x) // 5])
    x_old, x_new = x[old], x[new]
    labels = torch.full_like(old, -1)
    for label in range(int(y.max()) + 1):
        members = (y[old] == label).nonzero()[: args.labels, 0]
        labels[members] = label
    is_known = labels >= 0
    index = NeighborIndex(x_old, 15)
    graph = Data(x=x_old, edge_index=index.edge_index, edge_weight=index.edge_weight)
    teacher = DiffusionClassifier(x.size(1))
    fit(teacher, graph, labels=labels, seed=seed, progress=False)
    with torch.no_grad():
        probability = teacher(graph.x, graph.edge_index, graph.edge_weight)
        probability[is_known] = F.one_hot(labels[is_known], probability.size(1)).float()
    student = distil(x_old, probability, args.epochs, seed)
    regression = LogisticRegression(C=100.0, max_iter=500)
    regression.fit(x_old[is_known].numpy(), labels[is_known].numpy())

    def joined() -> Tensor:
        edge_index, edge_weight = index.extend(x_new)
        return teacher(torch.cat([x_old, x_new]), edge_index, edge_weight)[len(old) :]

    ways: dict[str, Callable[[], Tensor]] = {
        "joined to the graph": joined,
        "its own features": lambda: teacher.classify(x_new),
        "distilled into an MLP": lambda: student(x_new),
        "labels alone": lambda: torch.from_numpy(regression.predict_proba(x_new.numpy())),
    }
    rows = []
    for way, predict in ways.items():
        with torch.no_grad():
            predict()
            start = time.process_time()
            for _ in range(args.repeats):
                found = predict()
            taken = (time.process_time() - start) / args.repeats
        right = float((found.argmax(1) == y[new]).double().mean())
        rows.append({"way": way, "accuracy": right, "µs a document": 1e6 * taken / len(new)})
    return rows


def main(argv: list[str] | None = None) -> pd.DataFrame:
    parser = parser_of(__doc__)
    parser.add_argument("--labels", type=int, default=20, help="known ones of a class")
    parser.add_argument("--epochs", type=int, default=60, help="of the MLP")
    parser.add_argument("--repeats", type=int, default=20)
    args = parser.parse_args(argv)
    logging.basicConfig(level=logging.ERROR)
    x, y = load_points(args.embeddings)
    rows = pd.DataFrame([row for seed in range(args.seeds) for row in compare(x, y, args, seed)])
    table = rows.groupby("way", sort=False).agg(["mean", "std"])
    print(f"{len(x)} points, a fifth of them new, {args.labels} labels a class\n")
    print(table.round({"accuracy": 4, "µs a document": 2}).to_string())
    return table


if __name__ == "__main__":
    main()
