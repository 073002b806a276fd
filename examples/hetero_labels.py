"""Labels that spread over nodes of several types: which relations should conduct them?

Heat of a few labels, without features of nodes: along all relations alike (the time is chosen on
validation nodes), along learned conductances, and by hand without the relations that --without
names. If the labelled type has words, they diffuse along both kinds of conductances, too, and a
logistic regression reads them. --noise adds a relation that says nothing. Without --data the graph
is planted: items, shops that sell to one class mostly, and tags that say nothing. A file is as
`helpers/relations.py` says.

    python examples/hetero_labels.py --data dblp.npz --without term
"""

import argparse
import time

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from helpers.relations import Split, read
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from torch import Tensor
from torch_geometric import seed_everything
from torch_geometric.data import HeteroData

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.graph.relations import read_hetero_data
from jsem_pyg.nn import HeteroDiffusion
from jsem_pyg.training import propagate_labels

TIMES = torch.tensor([0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 30.0, 50.0, 80.0, 120.0])


def planted(seed: int = 0) -> tuple[HeteroData, str, Tensor, dict[str, Split]]:
    """600 items of four classes; 80 % of the edges to shops are within a class; tags are noise."""
    seed_everything(seed)
    data, y = HeteroData(), torch.randint(4, (600,))
    data["item"].num_nodes, data["shop"].num_nodes, data["tag"].num_nodes = 600, 80, 100
    item = torch.arange(600)
    shop = torch.randint(20, (2 * 600,)) * 4
    kind = torch.where(torch.rand(1200) < 0.8, y.repeat(2), torch.randint(4, (1200,)))
    data["item", "in", "shop"].edge_index = torch.stack([item.repeat(2), shop + kind]).unique(dim=1)
    tags = torch.stack([item.repeat(6), torch.randint(100, (3600,))])
    data["item", "has", "tag"].edge_index = tags.unique(dim=1)
    data["item"].x = torch.poisson(0.5 + F.one_hot(y, 4).float())
    return data, "item", y, {"20": random_split(y, 20, seed)}


def random_split(y: Tensor, number: int, seed: int) -> Split:
    """Draw that many labels of each class; a fifth of the rest chooses the time."""
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(y), generator=generator)
    train = torch.cat([order[y[order] == c][:number] for c in range(int(y.max()) + 1)])
    rest = order[~torch.isin(order, train)]
    return train, rest[: len(rest) // 5], rest[len(rest) // 5 :]


def spread(data: HeteroData, target: str, y: Tensor, split: Split) -> tuple[Tensor, float]:
    """Heat of the labels, all edges alike, for the time that is best on the validation nodes.

    All classes have equally much heat in the end (Zhu et al. 2003); else a class would get more if
    its labelled nodes have many edges.
    """
    graph, _ = read_hetero_data(data)
    train, validation, _ = split
    start = torch.zeros(graph.num_nodes, int(y.max()) + 1)
    start[graph.rows[target].start + train, y[train]] = 1.0
    found = heat_diffusion(start / start.sum(0), graph.structure, None, TIMES)
    found = found / found.sum(1, keepdim=True)
    predictions = found[:, graph.rows[target]].argmax(-1)
    scores = [f1_score(y[validation], each[validation], average="macro") for each in predictions]
    best = int(np.argmax(scores))
    return predictions[best], float(TIMES[best])


def add_noise(data: HeteroData, target: str) -> None:
    """Join every node of a type to five random ones of a thousand."""
    data["noise"].num_nodes, generator = 1000, torch.Generator().manual_seed(0)
    source = torch.arange(data[target].num_nodes).repeat(5)
    noise = torch.randint(1000, source.shape, generator=generator)
    data[target, "to", "noise"].edge_index = torch.stack([source, noise]).unique(dim=1)


def read_words(
    data: HeteroData, target: str, y: Tensor, train: Tensor, conductance: Tensor
) -> Tensor:
    """Words that diffuse along the relations, then logistic regression: the classes [N]."""
    width = data[target].num_features
    x = {name: torch.zeros(data[name].num_nodes, width) for name in data.node_types}
    x[target] = data[target].x
    parts = conductance.split([each.num_edges for each in data.edge_stores])
    weights = dict(zip(data.edge_types, parts, strict=True))
    with torch.no_grad():
        words = HeteroDiffusion(data.metadata())(x, data.edge_index_dict, weights)[target]
    words = F.normalize(words, dim=1)
    model = LogisticRegression(max_iter=1000).fit(words[train], y[train])
    return torch.from_numpy(model.predict(words))


def main(argv: list[str] | None = None) -> pd.DataFrame:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", help="a .npz file; a planted graph, if omitted")
    parser.add_argument("--without", nargs="*", help="node types that are left out by hand")
    parser.add_argument("--seeds", type=int, default=0, help="random splits, 20 labels a class")
    parser.add_argument("--noise", action="store_true", help="a relation more that says nothing")
    args = parser.parse_args(argv)
    data, target, y, splits = read(args.data) if args.data else planted()
    if args.noise:
        add_noise(data, target)
    if args.seeds:
        splits = {f"20, draw {i}": random_split(y, 20, i) for i in range(args.seeds)}
    left_out = args.without if args.without is not None else ([] if args.data else ["tag"])
    by_hand = data.node_type_subgraph([n for n in data.node_types if n not in left_out])
    rows = []
    for name, split in splits.items():
        train, _, test = split
        labels = torch.full_like(y, -1)
        labels[train] = y[train]

        start = time.process_time()
        found = propagate_labels(data, labels, target)
        seconds = time.process_time() - start
        ways = {
            "all relations alike": spread(data, target, y, split),
            "learned": (found.probabilities.argmax(-1), found.t),
        }
        if left_out:
            ways[f"without {', '.join(left_out)}"] = spread(by_hand, target, y, split)
        if "x" in data[target]:
            known = found.conductance
            for way, each in (("alike", torch.ones_like(known)), ("learned", known)):
                ways[f"words, {way}"] = read_words(data, target, y, train, each), 5.0
        for way, (predicted, t) in ways.items():
            f1 = 100 * f1_score(y[test], predicted[test], average="macro")
            rows.append((name, way, f1, t, seconds if way == "learned" else None))
        print(f"{name} labels a class, conductances of the relations:\n{found.relations}\n")
    table = pd.DataFrame(rows, columns=["labels", "way", "Macro-F1", "t", "CPU s"])
    print(table.round(2).to_string(index=False))
    if args.seeds > 1:
        print(table.groupby("way")["Macro-F1"].agg(["mean", "std"]).round(2).to_string())
    return table


if __name__ == "__main__":
    main()
