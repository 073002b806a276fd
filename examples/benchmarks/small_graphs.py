"""What does a layer cost on a small graph, where calls of functions take longer than products?

One layer of 32 channels, on one thread: a graph that stays the same (a ring), forward, and forward
with backward; and batches of molecule-sized graphs that no layer has seen before, as a `DataLoader`
makes them. The layers of PyG run in turn with ours, so that a busy machine slows all alike; a
number is the median of many calls, in seconds of the processor, relative to ChebConv(K=5).

    python examples/benchmarks/small_graphs.py
    python examples/benchmarks/small_graphs.py --output examples/results   # writes the page
"""

import argparse
import time
from collections.abc import Iterator
from itertools import cycle

import pandas as pd
import torch
from reporting import Call, machine, medians, parser_of, write_table
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import APPNP, ChebConv, GCNConv
from torch_geometric.utils import to_undirected

from jsem_pyg.nn import AnisotropicChebConv, AnisotropicDiffusion

CHANNELS, RING, GRAPHS = 32, 30, 32
BASELINE = "ChebConv(K=5)"


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--batches", type=int, default=20, help="batches that take turns")
    return parser.parse_args(argv)


def layers() -> dict[str, nn.Module]:
    return {
        BASELINE: ChebConv(CHANNELS, CHANNELS, 5),
        "GCNConv": GCNConv(CHANNELS, CHANNELS),
        "APPNP(K=10)": APPNP(10, 0.1),
        "AnisotropicDiffusion(edge_dim=0)": AnisotropicDiffusion(edge_dim=0),
        "AnisotropicDiffusion(edge_dim=1)": AnisotropicDiffusion(edge_dim=1),
        "AnisotropicChebConv(edge_dim=1)": AnisotropicChebConv(CHANNELS, CHANNELS, edge_dim=1),
    }


def ring() -> Data:
    node = torch.arange(RING)
    return with_features(to_undirected(torch.stack([node, (node + 1) % RING])), RING)


def molecules(generator: torch.Generator) -> Batch:
    """A batch of graphs of 20 to 40 nodes, with about two undirected edges for each."""
    graphs = []
    for _ in range(GRAPHS):
        size = int(torch.randint(20, 41, (1,), generator=generator))
        ends = torch.randint(0, size, (2, 2 * size), generator=generator)
        graphs.append(with_features(to_undirected(ends[:, ends[0] != ends[1]]), size))
    return Batch.from_data_list(graphs)


def with_features(edge_index: Tensor, num_nodes: int) -> Data:
    source, target = edge_index
    attr = torch.sin((source * target).float()).unsqueeze(1)  # the same in both directions
    return Data(x=torch.randn(num_nodes, CHANNELS), edge_index=edge_index, edge_attr=attr)


def run(layer: nn.Module, x: Tensor, edge_index: Tensor, attr: Tensor) -> Tensor:
    if getattr(layer, "edge_dim", 0):
        return layer(x, edge_index, edge_attr=attr)
    return layer(x, edge_index)


def forward(layer: nn.Module, data: Data) -> Call:
    return lambda: run(layer, data.x, data.edge_index, data.edge_attr)


def forward_backward(layer: nn.Module, batches: Iterator[Data], is_new: bool) -> Call:
    def call() -> None:
        data = next(batches)
        layer.zero_grad()
        # A copy has another place in memory: to a layer, a graph that it has not seen.
        edge_index = data.edge_index.clone() if is_new else data.edge_index
        x = data.x.clone().requires_grad_()
        run(layer, x, edge_index, data.edge_attr).sum().backward()

    return call


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    batches, same = [molecules(generator) for _ in range(args.batches)], ring()
    found = layers()
    parts = {
        "forward": {name: forward(each, same) for name, each in found.items()},
        "forward + backward": {
            name: forward_backward(each, cycle([same]), False) for name, each in found.items()
        },
        "new batch, forward + backward": {
            name: forward_backward(each, cycle(batches), True) for name, each in found.items()
        },
    }
    table = pd.DataFrame({"layer": list(found)})
    for part, calls in parts.items():
        seconds = medians(calls, args.repeats, time.thread_time)
        if part == "forward":
            table[f"{part}, ms"] = [round(1e3 * seconds[name], 3) for name in found]
        table[f"{part}, ratio"] = [round(seconds[name] / seconds[BASELINE], 2) for name in found]
    notes = [
        "# Layers on small graphs",
        f"`python examples/benchmarks/small_graphs.py`: one layer of {CHANNELS} channels on a ring "
        f"of {RING} nodes, and on batches of {GRAPHS} graphs of 20 to 40 nodes that the layer has "
        f"not seen before; one thread, the median of {args.repeats} calls in turn, in seconds of "
        f"the processor, as multiples of {BASELINE}. {machine()}.",
    ]
    write_table(table, args.output, "small_graphs", notes)
    return table


if __name__ == "__main__":
    main()
