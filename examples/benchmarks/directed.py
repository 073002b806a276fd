"""Do the directions of edges tell classes apart?

Planted graphs: 600 nodes of five classes, as many edges between any two classes. Only directions
tell: an edge between class c and class c + 1 leads there nine times of ten ("cycle"), or from a
lower class to a higher one ("order"). Heat of 100 known labels, read at the other nodes. Compared:

- undirected: heat along edges without their directions;
- two copies: every node sends and receives. An edge i -> j joins the sender i with the receiver j,
  so heat goes from a node to those that send to the same ones, and to those that receive from them;
- magnetic: the Hermitian Laplacian (Zhang et al., "MagNet", 2021, equation 2), in which the
  direction turns a phase by 2 pi q. It is an operator of one's own for `diffuse`, with 2 N rows.

Time and q are chosen on 100 validation nodes.

Real graphs, with --data: links between pages of Wikipedia, Chameleon and Squirrel without
duplicates (Platonov et al., ICLR 2023), ten fixed splits. One residual network (that of
`heterophilous.py`), in which only what looks at the edges differs (WAYS). Each has three settings,
of which the validation nodes of a split choose one for that split.

    python examples/benchmarks/directed.py --seeds 5
    python examples/benchmarks/directed.py --data FOLDER  # FOLDER/chameleon_filtered_directed.npz
    python examples/benchmarks/directed.py --quick  # a small grid

Runs are rows of directed.csv in --output; what it has is not run again.
"""

import itertools
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from helpers.heterophilous_graphs import load, small_grid
from helpers.heterophilous_network import Net
from heterophilous import QUICK, SETTINGS, run
from reporting import Rows, markdown, parser_of, spread
from torch import Tensor
from torch.nn import Linear, Module
from torch_geometric.data import Data
from torch_geometric.nn import DirGNNConv, GCNConv
from torch_geometric.utils import to_torch_csr_tensor

from jsem_pyg.diffusion import diffuse, heat_diffusion
from jsem_pyg.graph import GraphStructure
from jsem_pyg.nn import HeteroDiffusion, RelationalChebConv
from jsem_pyg.operators import Operator
from jsem_pyg.transforms import BothDirections

CLASSES, LABELS = 5, 100
TIMES = (0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0)
GRAPHS = {"cycle, 12 edges a node": ("cycle", 12), "cycle, 30": ("cycle", 30),
          "order, 12": ("order", 12), "order, 30": ("order", 30)}  # fmt: skip


def planted(kind: str, degree: int, seed: int, num_nodes: int = 600) -> Data:
    """Draw pairs of nodes, and a direction for each by its classes."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(num_nodes)[torch.randperm(num_nodes, generator=generator)] % CLASSES
    ends = torch.randint(num_nodes, (2, num_nodes * degree // 2), generator=generator)
    source, target = ends[:, ends[0] != ends[1]]
    step = y[target] - y[source]
    leads = (
        step.sign()
        if kind == "order"
        else (step % CLASSES == 1).long() - (step % CLASSES == 4).long()
    )
    share = torch.tensor([0.1, 0.5, 0.9])[leads + 1]  # of edges that stay as they were drawn
    stays = torch.rand(len(source), generator=generator) < share
    edges = torch.stack([torch.where(stays, source, target), torch.where(stays, target, source)])
    order = torch.randperm(num_nodes, generator=generator)
    return Data(edge_index=edges.unique(dim=1), y=y, order=order, num_nodes=num_nodes)


class Magnetic(Operator):
    """S = D^(-1/2) (W * exp(2 pi i q (A - A^T))) D^(-1/2), on real parts above imaginary parts."""

    def __init__(self, data: Data, q: float) -> None:
        size = data.num_nodes
        self.num_nodes = 2 * size
        ways = torch.zeros(size, size)
        ways[data.edge_index[0], data.edge_index[1]] = 1
        weight = (ways + ways.T) / 2
        root = weight.sum(1).clamp(min=1e-9).rsqrt()
        phase = 2 * np.pi * q * (ways - ways.T)
        weight = root[:, None] * weight * root
        real, imaginary = weight * phase.cos(), weight * phase.sin()
        rows = torch.cat([real, -imaginary], 1), torch.cat([imaginary, real], 1)
        self.matrix = torch.cat(rows).to_sparse_csr()

    def apply(self, x: Tensor) -> Tensor:
        """Multiply by S."""
        return self.matrix @ x


def undirected(data: Data, start: Tensor) -> list[Tensor]:
    both = BothDirections()(data)
    return list(
        heat_diffusion(start, both.edge_index, both.edge_weight, torch.tensor(TIMES), tol=1e-4)
    )


def two_copies(data: Data, start: Tensor) -> list[Tensor]:
    edges = {("sender", "to", "receiver"): data.edge_index}
    layer = HeteroDiffusion((["sender", "receiver"], list(edges)), t=list(TIMES), tol=1e-4)
    nothing = torch.zeros_like(start)
    sent = layer({"sender": start, "receiver": nothing}, edges)["sender"]
    received = layer({"sender": nothing, "receiver": start}, edges)["receiver"]
    return list((sent + received).detach().unflatten(1, (len(TIMES), -1)).unbind(1))


def magnetic(data: Data, start: Tensor) -> list[Tensor]:
    signal = torch.cat([start, torch.zeros_like(start)])
    found = []
    for q in (0.1, 0.2, 0.25):
        heat = diffuse(signal, Magnetic(data, q), torch.tensor(TIMES), tol=1e-4)
        found += list(heat[:, : data.num_nodes])
    return found


def accuracy(way: Callable[[Data, Tensor], list[Tensor]], data: Data) -> float:
    """Return the test accuracy of the time, and q, that is best on validation nodes."""
    known, validation, test = data.order.tensor_split([LABELS, 2 * LABELS])
    start = torch.zeros(data.num_nodes, CLASSES)
    start[known] = F.one_hot(data.y[known], CLASSES).float()
    right = [(heat.argmax(1) == data.y).float() for heat in way(data, start / start.sum(0))]
    best = max(right, key=lambda each: float(each[validation].mean()))
    return float(best[test].mean())


class Around(Module):
    """A block's own features beside those that `look` finds around them."""

    def __init__(self, look: Callable[[Tensor], Tensor], width: int, *parts: Module) -> None:
        super().__init__()
        self.look, self.width, self.parts = look, width, torch.nn.ModuleList(parts)

    def forward(self, x: Tensor, _: GraphStructure) -> Tensor:
        return torch.cat([x, self.look(x)], 1)


def no_edges(width: int, data: Data) -> None:
    """Every node by itself."""


def one_relation(width: int, data: Data, **setting: float) -> Around:
    conv, both = RelationalChebConv(width, width, 1, **setting), BothDirections()(data)
    kind = torch.zeros_like(both.edge_type)
    return Around(lambda x: conv(x, both.edge_index, kind), 2 * width, conv)


def two_relations(width: int, data: Data, **setting: float) -> Around:
    """One-way edges, and the others."""
    conv, both = RelationalChebConv(width, width, 2, **setting), BothDirections()(data)
    return Around(lambda x: conv(x, both.edge_index, both.edge_type), 2 * width, conv)


def sender_and_receiver(width: int, data: Data, t: float) -> Around:
    """Heat between two copies of each node, which get a map each."""
    edges = {("sender", "to", "receiver"): data.edge_index}
    layer, lin = (
        HeteroDiffusion((["sender", "receiver"], list(edges)), t=t),
        Linear(width, 2 * width),
    )

    def look(x: Tensor) -> Tensor:
        sent, received = lin(x).chunk(2, 1)
        return torch.cat(list(layer({"sender": sent, "receiver": received}, edges).values()), 1)

    return Around(look, 3 * width, layer, lin)


def phases(width: int, data: Data, q: float) -> Around:
    """Real and imaginary part of the magnetic heat, at two times."""
    operator = Magnetic(data, q)

    def look(x: Tensor) -> Tensor:
        signal = torch.cat([x, torch.zeros_like(x)])
        heat = diffuse(signal, operator, torch.tensor([0.5, 2.0]), tol=0.1)
        return torch.cat([half for each in heat for half in each.chunk(2)], 1)

    return Around(look, 5 * width)


def hops(width: int, data: Data) -> Around:
    edges = to_torch_csr_tensor(BothDirections()(data).edge_index, size=(data.num_nodes,) * 2)
    conv = GCNConv(width, width, cached=True)
    return Around(lambda x: conv(x, edges), 2 * width, conv)


def both_hops(width: int, data: Data, alpha: float) -> Around:
    conv = DirGNNConv(GCNConv(width, width, cached=True), alpha=alpha)
    return Around(lambda x: conv(x, data.edge_index), 2 * width, conv)


RELATIONAL = {"t": 2.0}, {"t": 5.0}, {"from_neighbors": True}
DROPOUT = {"dropout": 0.3}, {"dropout": 0.5}, {"dropout": 0.7}
WAYS: dict[str, tuple[Callable[..., Around | None], tuple[dict, ...]]] = {
    "no edges": (no_edges, DROPOUT),
    "GCNConv, undirected": (hops, DROPOUT),
    "RelationalChebConv, undirected": (one_relation, RELATIONAL),
    "BothDirections, two relations": (two_relations, RELATIONAL),
    "HeteroDiffusion, two copies": (sender_and_receiver, ({"t": 0.3}, {"t": 1.0}, {"t": 3.0})),
    "magnetic": (phases, ({"q": 0.05}, {"q": 0.1}, {"q": 0.25})),
    "DirGNNConv(GCNConv)": (both_hops, ({"alpha": 0.0}, {"alpha": 0.5}, {"alpha": 1.0})),
}
KEY = ("data", "split", "way", "setting")


def run_missing(path: Path, sets: dict[str, Data], splits: Iterable[int]) -> pd.DataFrame:
    """Run every setting of every way that the file lacks; return all runs."""
    rows = Rows(path, *KEY)
    for name, split, way in itertools.product(sets, splits, WAYS):
        data, (make, settings) = sets[name], WAYS[way]
        graph = GraphStructure(BothDirections()(data).edge_index, data.num_nodes)
        for setting in settings:
            key = name, split, way, str(setting)
            if rows.has(*key):
                continue
            how = SETTINGS[name.removesuffix("_directed")]
            own = {k: v for k, v in setting.items() if k != "dropout"}
            how = replace(how, dropout=setting.get("dropout", how.dropout))
            net = partial(Net, partial(make, data=data, **own), data, graph, how)
            rows.add(dict(zip(KEY, key, strict=True)) | run(net, data, split, how))
    return rows.table()


def summarize(runs: pd.DataFrame) -> pd.DataFrame:
    """Test accuracy of the settings that the validation nodes of each split choose."""
    best = runs.loc[runs.groupby(["data", "way", "split"], sort=False)["val"].idxmax()]
    rows: dict[str, dict[str, str]] = {way: {"": way} for way in WAYS}
    for name, part in best.groupby("data", sort=False):
        test = part.pivot(index="split", columns="way", values="test")
        val = part.groupby("way")["val"].mean()
        rival = test["GCNConv, undirected"]
        for way in test:
            gain = test[way] - rival
            error = gain.std() / gain.count() ** 0.5
            rows[way] |= {
                name: f"{spread(test[way], 1)} ({gain.count()})",
                f"{name}, validation": f"{val[way]:.1f}",
                f"{name}, less GCNConv": f"{gain.mean():+.1f} ± {error:.1f}",
            }
    return pd.DataFrame(rows.values())


def real(folder: Path | None, output: Path, splits: range) -> pd.DataFrame:
    names = [f"{name}_filtered_directed" for name in ("chameleon", "squirrel")]
    if folder is None:
        SETTINGS.update(QUICK)
        sets = dict.fromkeys(["grid", "grid_directed"], small_grid())
    else:
        sets = {name: load(name, folder) for name in names}
    table = summarize(run_missing(output / "directed.csv", sets, splits))
    print(markdown(table))
    return table


def planted_graphs(seeds: int) -> pd.DataFrame:
    rows: dict[str, dict[str, str]] = {}
    for name, given in GRAPHS.items():
        graphs = [planted(*given, seed) for seed in range(seeds)]
        for way in (undirected, two_copies, magnetic):
            found = pd.Series([accuracy(way, data) for data in graphs])
            rows.setdefault(way.__name__.replace("_", " "), {})[name] = spread(found)
    table = pd.DataFrame(rows).T
    print("Test accuracy, mean ± standard deviation over graphs (by chance 0.2)\n")
    print(table.to_string())
    return table


def main(argv: list[str] | None = None) -> pd.DataFrame:
    parser = parser_of(__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="planted graphs")
    parser.add_argument("--data", type=Path, help="folder with real graphs, in place of planted")
    parser.add_argument("--splits", type=int, default=10, help="of the real graphs")
    parser.add_argument("--quick", action="store_true", help="a small grid for the real graphs")
    args = parser.parse_args(argv)
    if args.data is None and not args.quick:
        return planted_graphs(args.seeds)
    return real(args.data, args.output, range(2 if args.quick else args.splits))


if __name__ == "__main__":
    main()
