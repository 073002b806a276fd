"""One hypergraph, thousands of signals: how long does a layer over experts take?

B x L tokens carry a signal each on the same few experts. Ours folds the tokens into the columns of
one product; the two ways that PyG offers are a Python loop over `HypergraphConv`, and
`HypergraphConv` on the structure replicated for every token, which is what `Batch` makes. Answers
are checked before anything is timed: one product of the operator is PyG's layer, the replicated
structure gives what the loop gives, and ours is the matrix exponential. Ratios are of medians over
several repeats in the same run, the ways taking turns; memory is the peak above what was there
before, by torch's own count.

    OMP_NUM_THREADS=2 python examples/benchmarks/hypergraph.py
    python examples/benchmarks/hypergraph.py --devices cuda
"""

import argparse
import time
from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np
import pandas as pd
import torch
from reporting import Call, machine, markdown, medians, parser_of, write_table
from torch import Tensor
from torch.profiler import ProfilerActivity, profile
from torch_geometric.nn import HypergraphConv

from jsem_pyg.graph import HypergraphStructure
from jsem_pyg.nn import HypergraphChebConv, HypergraphDiffusion
from jsem_pyg.operators.hypergraph import hypergraph_operator

DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
LOOP, BATCH = "PyG, loop over tokens", "PyG, replicated structure"
CONV, DIFFUSION = "HypergraphChebConv", "HypergraphDiffusion"


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--tokens", type=int, default=4096, help="B x L signals")
    parser.add_argument("--experts", type=int, default=8)
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--many-experts", type=int, default=64, help="of which all triples couple")
    parser.add_argument("--many-tokens", type=int, default=4, help="for which PyG fits in memory")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--devices", nargs="+", default=DEVICES)
    return parser.parse_args(argv)


def every(num_nodes: int, size: int) -> Tensor:
    """All sets of `size` nodes, as memberships [2, M]."""
    sets = torch.tensor(list(combinations(range(num_nodes), size)))
    return torch.stack([sets.flatten(), torch.arange(len(sets)).repeat_interleave(size)])


def rings(num_nodes: int, size: int = 3) -> Tensor:
    """Every node with the `size` - 1 that follow it: as many hyperedges as nodes."""
    node = torch.arange(num_nodes)
    members = (node[:, None] + torch.arange(size)) % num_nodes
    return torch.stack([members.flatten(), node.repeat_interleave(size)])


def replicate(index: Tensor, num_nodes: int, num_hyperedges: int, times: int) -> Tensor:
    """What `Batch` makes of as many copies."""
    shift = torch.tensor([num_nodes, num_hyperedges], device=index.device)
    copies = torch.arange(times, device=index.device)[:, None, None] * shift[:, None]
    return (index + copies).transpose(0, 1).flatten(1)


class Case:
    """A hypergraph, its signals, and everything that is timed on them."""

    def __init__(
        self, index: Tensor, num_experts: int, tokens: int, channels: int, device: str
    ) -> None:
        torch.manual_seed(0)
        self.index, self.num_experts, self.tokens = index.to(device), num_experts, tokens
        self.device = device
        self.num_hyperedges = int(index[1].max()) + 1
        self.x = torch.randn(tokens, num_experts, channels, device=device)
        self.direction = torch.randn_like(self.x)
        self.structure = HypergraphStructure(self.index, num_experts, self.num_hyperedges)
        self.pyg = HypergraphConv(channels, channels).to(device)
        learned = {"num_hyperedges": self.num_hyperedges}
        self.conv = HypergraphChebConv(channels, channels, **learned).to(device)
        self.diffusion = HypergraphDiffusion(**learned).to(device)
        sizes = (num_experts, self.num_hyperedges, tokens)
        self.replicated = replicate(self.index, *sizes)

    def loop(self, x: Tensor) -> Tensor:
        """A call for each token."""
        count = self.num_hyperedges
        return torch.stack([self.pyg(each, self.index, num_edges=count) for each in x])

    def batch(self, x: Tensor) -> Tensor:
        """One call, with a copy of the structure for each token."""
        count = self.num_hyperedges * self.tokens
        out = self.pyg(x.flatten(0, 1), self.replicated, num_edges=count)
        return out.view(self.tokens, self.num_experts, -1)

    def ways(self) -> dict[str, Callable[[Tensor], Tensor]]:
        """What is compared: signals [tokens, N, D] -> the same shape."""
        return {
            LOOP: self.loop,
            BATCH: self.batch,
            CONV: lambda x: self.conv(x, self.structure),
            DIFFUSION: lambda x: self.diffusion(x, self.structure),
        }

    @torch.no_grad()
    def check(self) -> None:
        """What is timed is right."""
        some = self.x[:3]
        ones = torch.ones(self.num_hyperedges, device=some.device)
        eye = torch.eye(self.num_experts, device=some.device)
        walk, symmetric = (
            eye - hypergraph_operator(self.structure, ones, each).apply_laplacian(eye)
            for each in ("rw", "sym")
        )
        expected = self.loop(some)
        assert_close("One product", walk @ self.pyg.lin(some) + self.pyg.bias, expected)
        assert_close("The replicated structure", self.batch(self.x)[:3], expected)
        kernel = torch.matrix_exp(self.diffusion.t * (symmetric - eye))
        assert_close("Diffusion", self.diffusion(self.x, self.structure)[:3], kernel @ some)
        mapped = self.conv.lin(kernel @ some) + self.conv.bias
        assert_close("The convolution", self.conv(self.x, self.structure)[:3], mapped)


def assert_close(name: str, actual: Tensor, expected: Tensor, tol: float = 1e-4) -> None:
    error = float((actual - expected).norm() / expected.norm())
    if not error <= tol:
        raise AssertionError(f"{name} disagrees: a relative error of {error:.2g}.")


def median_seconds(calls: dict[str, Call], repeats: int, device: str) -> dict[str, float]:
    def finished(call: Call) -> Call:
        return lambda: (call(), synchronize(device))

    calls = {name: finished(call) for name, call in calls.items()}
    return medians(calls, repeats, time.perf_counter)


def synchronize(device: str) -> None:
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def peak_bytes(call: Call, device: str) -> int:
    """The most memory that a call held at a time, above what was held before."""
    if device.startswith("cuda"):
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call()
        return torch.cuda.max_memory_allocated() - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()
    events = profiler.profiler.kineto_results.events()
    changes = [(each.start_ns(), each.nbytes()) for each in events if each.name() == "[memory]"]
    return int(np.cumsum([0, *(nbytes for _, nbytes in sorted(changes))]).max())


def measure(name: str, case: Case, repeats: int) -> pd.DataFrame:
    """Time every way on a case, once its answers are right."""
    case.check()
    x = case.x.clone().requires_grad_()

    def forward(way: Callable[[Tensor], Tensor]) -> Call:
        return torch.no_grad()(lambda: way(x))

    def both(way: Callable[[Tensor], Tensor]) -> Call:
        def call() -> None:
            x.grad = None
            way(x).backward(case.direction)

        return call

    ways = case.ways()
    columns = {
        unit: median_seconds({way: wrap(f) for way, f in ways.items()}, repeats, case.device)
        for unit, wrap in (("forward s", forward), ("forward + backward s", both))
    }
    columns["peak MB"] = {way: peak_bytes(both(f), case.device) / 1e6 for way, f in ways.items()}
    table = pd.DataFrame(columns).rename_axis("way").reset_index()
    for peer, short in ((LOOP, "loop"), (BATCH, "replicated")):
        of_peer = table.loc[table["way"] == peer].iloc[0]
        for column, unit in (("forward", "forward s"), ("both", "forward + backward s")):
            table[f"{short} / this, {column}"] = of_peer[unit] / table[unit]
    # The tensor that a message for every membership, token and channel would be.
    messages = case.tokens * case.index.size(1) * case.x.size(-1) * case.x.element_size()
    table["messages MB"] = messages / 1e6
    table.insert(0, "hypergraph", f"{name}, {case.device}")
    return table


def cases(args: argparse.Namespace, device: str) -> Iterator[tuple[str, Case]]:
    few, many, rest = args.experts, args.many_experts, (args.channels, device)
    yield f"{few} experts, {few} triples in a ring", Case(rings(few), few, args.tokens, *rest)
    yield f"{few} experts, every pair", Case(every(few, 2), few, args.tokens, *rest)
    yield f"{few} experts, every triple", Case(every(few, 3), few, args.tokens, *rest)
    yield f"{many} experts, every triple", Case(every(many, 3), many, args.many_tokens, *rest)


def describe(args: argparse.Namespace) -> str:
    return (
        f"{args.tokens} tokens ({args.many_tokens} for {args.many_experts} experts), "
        f"D = {args.channels}, t = 1, float32; {', '.join(args.devices)}, {machine()}"
    )


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    parts = []
    for device in args.devices:
        for name, case in cases(args, device):
            parts.append(measure(name, case, args.repeats))
            print(markdown(parts[-1]), flush=True)
    table = pd.concat(parts, ignore_index=True)
    write_table(table, args.output, "hypergraph", [describe(args)])
    return table


if __name__ == "__main__":
    main()
