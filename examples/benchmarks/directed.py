"""Labels that spread along directed edges.

A planted graph: 600 nodes of five classes, as many edges between any two classes. Only directions
tell: an edge between class c and class c + 1 leads there nine times of ten ("cycle"), or from a
lower class to a higher one ("order"). Heat of 100 known labels, read at the other nodes. Compared:

- undirected: heat along edges without their directions;
- two copies: every node sends and receives. An edge i -> j joins the sender i with the receiver j,
  so heat goes from a node to those that send to the same ones, and to those that receive from them;
- magnetic: the Hermitian Laplacian (Zhang et al., "MagNet", 2021, equation 2), in which the
  direction turns a phase by 2 pi q. It is an operator of one's own for `diffuse`, with 2 N rows.

Time and q are chosen on 100 validation nodes.

    python examples/benchmarks/directed.py --seeds 5
"""

import argparse
from collections.abc import Callable

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_geometric.data import Data

from jsem_pyg.diffusion import diffuse, heat_diffusion
from jsem_pyg.nn import HeteroDiffusion
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
        self.matrix = torch.cat([torch.cat([real, -imaginary], 1), torch.cat([imaginary, real], 1)])

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


def accuracy(spread: Callable[[Data, Tensor], list[Tensor]], data: Data) -> float:
    """Return the test accuracy of the time, and q, that is best on validation nodes."""
    known, validation, test = data.order.tensor_split([LABELS, 2 * LABELS])
    start = torch.zeros(data.num_nodes, CLASSES)
    start[known] = F.one_hot(data.y[known], CLASSES).float()
    right = [(heat.argmax(1) == data.y).float() for heat in spread(data, start / start.sum(0))]
    best = max(right, key=lambda each: float(each[validation].mean()))
    return float(best[test].mean())


def main(argv: list[str] | None = None) -> pd.DataFrame:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args(argv)
    rows: dict[str, dict[str, str]] = {}
    for name, given in GRAPHS.items():
        graphs = [planted(*given, seed) for seed in range(args.seeds)]
        for spread in (undirected, two_copies, magnetic):
            found = np.array([accuracy(spread, data) for data in graphs])
            row = rows.setdefault(spread.__name__.replace("_", " "), {})
            row[name] = f"{found.mean():.3f} ± {found.std():.3f}"
    table = pd.DataFrame(rows).T
    print("Test accuracy, mean ± standard deviation over graphs (by chance 0.2)\n")
    print(table.to_string())
    return table


if __name__ == "__main__":
    main()
