"""What each ingredient adds: the same study on variants that differ from their family by one thing.

    python examples/study/ablations.py --data FOLDER       # digits, AG News and Cora, three seeds
    python examples/study/ablations.py --quick             # some digits, seconds

Rows that ablations.csv in --output has already are not run again. Every method is a function as in
`methods.py`, and sees no labels.
"""

import argparse
from functools import partial

import learned
import pandas as pd
import runner
import torch
import torch.nn.functional as F
from data_sets import NEIGHBOURS
from edge_geometry import with_geometry
from filters import heat
from methods import Method
from report import as_markdown, pivot
from runner import Table
from scoring import clustering_table
from torch import Tensor
from torch_geometric import seed_everything
from torch_geometric.data import Data

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.neighbors import knn_graph
from jsem_pyg.nn import AnisotropicDiffusion, DiffusionClassifier
from jsem_pyg.training import GraphTriplets, Triplets, fit, select_time
from jsem_pyg.transforms import FormanCurvature

FILE = "ablations.csv"
SKETCH = 64
TEMPERATURE = 0.2  # of InfoNCE
CANDIDATES = 8  # strangers, of which the nearest is a hard negative
PROJECTION = 16  # channels of the projection that both ends of an edge share


class CosineConductance(torch.nn.Module):
    """An edge conducts by the cosine of both ends' features after a shared linear projection."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.projection = torch.nn.Linear(channels, PROJECTION, bias=False)
        self.slope = torch.nn.Parameter(torch.zeros(()))
        self.threshold = torch.nn.Parameter(torch.tensor(0.5))

    def forward(self, edge_attr: Tensor | None, x_i: Tensor, x_j: Tensor) -> Tensor:
        cosine = F.cosine_similarity(self.projection(x_i), self.projection(x_j))
        return torch.sigmoid(self.slope * (cosine - self.threshold))


class HardNegatives:
    """Graph triplets whose negative is the nearest of several strangers, by diffused features."""

    def __init__(self, sampler: GraphTriplets, z: Tensor) -> None:
        self.sampler, self.z = sampler, F.normalize(z)

    def sample(self, num_triplets: int, generator: torch.Generator | None = None) -> Triplets:
        many = self.sampler.sample(num_triplets * CANDIDATES, generator)
        # A stranger of another anchor may be a neighbour of this one, which is rare.
        first = Triplets(*(each[:num_triplets] for each in many))
        strangers = many.negative.view(CANDIDATES, num_triplets)
        cosine = (self.z[first.anchor] * self.z[strangers]).sum(-1)
        cosine = cosine.masked_fill(strangers == first.anchor, -1)
        nearest = strangers.gather(0, cosine.argmax(0, keepdim=True)).squeeze(0)
        return Triplets(first.anchor, first.positive, nearest)


def info_nce(z: Tensor, triplets: Triplets) -> Tensor:
    """A neighbour against the neighbours of all other anchors (van den Oord et al. 2018)."""
    z, some = F.normalize(z), slice(1024)
    logits = z[triplets.anchor[some]] @ z[triplets.positive[some]].T / TEMPERATURE
    return F.cross_entropy(logits, torch.arange(len(logits)))


def triplets(
    data: Data,
    num_classes: int,
    seed: int,
    epochs: int,
    features: str = "all",
    time: str = "one",
    loss: str = "triplet",
    positives: str = "graph",
    hard: bool = False,
    sketched: bool = True,
) -> Tensor:
    """Train an `AnisotropicDiffusion` by `fit`, from the time that isotropic heat likes best."""
    seed_everything(seed)
    t = select_time(data, seed=seed).t
    data, conductance = with_features(data, features)
    width = 0 if "edge_attr" not in data else data.edge_attr.size(1)
    model = AnisotropicDiffusion(width, t=times(time, t, data.x.size(1)), conductance=conductance)
    sampler = make_sampler(data, positives, t)
    if hard:
        sampler = HardNegatives(sampler, heat_diffusion(data.x, data.edge_index, t=t))
    sketch_dim = SKETCH if sketched and model.sketchable and data.x.size(1) > SKETCH else None
    chosen = info_nce if loss == "InfoNCE" else "triplet"
    options = {"sketch_dim": sketch_dim, "seed": seed, "progress": False}
    fit(model, data, loss=chosen, sampler=sampler, epochs=epochs, **options)
    with torch.no_grad():
        z = model(data.x, data.edge_index, data.edge_weight, data.get("edge_attr"))
    return F.normalize(z)


def with_features(data: Data, features: str) -> tuple[Data, str | torch.nn.Module]:
    """What the conductance looks at, and its form."""
    if features == "none":
        return data, "sigmoid"
    if features == "ends":
        return data, CosineConductance(data.x.size(1))
    data = FormanCurvature()(data)
    return (data, "sigmoid") if features == "curvature" else (with_geometry(data), "mlp")


def times(time: str, t: float, channels: int) -> float | list[float] | Tensor:
    """One time, three scales around it, or one for each channel."""
    return {"one": t, "scales": [t / 4, t, 4 * t], "channels": torch.full((1, channels), t)}[time]


def make_sampler(data: Data, positives: str, t: float) -> GraphTriplets:
    """Whose neighbour is a positive: the graph's, the mutual ones, those after diffusion."""
    if positives == "graph":
        return GraphTriplets(data.edge_index, data.edge_weight, data.num_nodes)
    x, symmetrize = data.x, "mutual"
    if positives == "diffused":
        x, symmetrize = heat_diffusion(data.x, data.edge_index, data.edge_weight, t), "max"
    edges = knn_graph(x, NEIGHBOURS, symmetrize=symmetrize, connect=False)
    return GraphTriplets(*edges, data.num_nodes)


def rebuilt(data: Data, num_classes: int, seed: int) -> Tensor:
    """Diffuse, join the nearest neighbours of what comes out, and diffuse again."""
    x = heat(data, num_classes, seed)
    edge_index, edge_weight = knn_graph(x, NEIGHBOURS)
    return heat(Data(x=x, edge_index=edge_index, edge_weight=edge_weight), num_classes, seed)


def self_training(
    data: Data,
    num_classes: int,
    seed: int,
    balance: float = 0.5,
    is_open: bool = False,
    own_time: bool = True,
    rounds: int = 4,
    views: int = 2,
) -> Tensor:
    """Self-training with one thing changed; the class of the highest probability."""
    t = select_time(data, seed=seed).t
    if views == 1:  # the classifier sees what has diffused already
        data.x = heat_diffusion(data.x, data.edge_index, data.edge_weight, t)
    conductance = learned.Open() if is_open else None
    sizes = (data.x.size(1), num_classes)
    model = DiffusionClassifier(*sizes, t=t, balance=balance, conductance=conductance)
    options = {} if own_time else {"times": None}
    fit(model, data, epochs=rounds, seed=seed, **options)
    with torch.no_grad():
        return model(data.x, data.edge_index, data.edge_weight).argmax(-1)


def make_ablations(epochs: int = 100) -> dict[str, Method]:
    """All variants by name, in the order of the table.

    "mutual positives" needs points: on a citation graph it joins papers by their words.
    """
    by_triplets = partial(partial, triplets, epochs=epochs)
    family = {
        "isotropic heat": heat,
        "heat, graph rebuilt, heat": rebuilt,
        "triplets, time only": by_triplets(features="none"),
        "triplets, time a channel": by_triplets(features="none", time="channels"),
        "triplets, three scales": by_triplets(features="none", time="scales"),
        "triplets, curvature": by_triplets(features="curvature"),
        "triplets, all geometry": by_triplets(),
        "triplets, both ends' features": by_triplets(features="ends"),
        "geometry, not sketched": by_triplets(sketched=False),
        "geometry, InfoNCE": by_triplets(loss="InfoNCE"),
        "geometry, mutual positives": by_triplets(positives="mutual"),
        "geometry, diffused positives": by_triplets(positives="diffused"),
        "geometry, hard negatives": by_triplets(hard=True),
        "self-training": self_training,
        "self-training, isotropic": partial(self_training, is_open=True),
        "self-training, one round": partial(self_training, rounds=1),
        "self-training, ten rounds": partial(self_training, rounds=10),
        "self-training, balance 0": partial(self_training, balance=0.0),
        "self-training, balance 1": partial(self_training, balance=1.0),
        "self-training, time by triplets": partial(self_training, own_time=False),
        "self-training, one view": partial(self_training, views=1),
    }
    return {name: Method(run) for name, run in family.items()}


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = runner.make_parser(__doc__, seeds=3, sets=["digits", "agnews", "cora"])
    return runner.parse(parser, argv)


def plan(args: argparse.Namespace) -> list[Table]:
    methods = make_ablations(epochs=2) if args.quick else make_ablations()
    seeds = range(1 if args.quick else args.seeds)
    wanted = runner.keys(dataset=args.sets, method=methods, seed=seeds)
    return [clustering_table(args.output / FILE, wanted, methods)]


def report(args: argparse.Namespace) -> pd.DataFrame:
    """Write the table from the rows, and return these."""
    runs = runner.read(args.output / FILE)
    text = "# Ablations\n\nARI, mean over the seeds.\n\n"
    text += f"{as_markdown(pivot(runs, 'ari'), '.3f')}\n"
    (args.output / "ablations.md").write_text(text)
    print(text)
    return runs


main = partial(runner.run, parse_args, plan, report)

if __name__ == "__main__":
    main()
