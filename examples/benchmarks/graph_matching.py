"""Which node is which? A graph and a renamed copy of it, some of its edges changed.

The graph is that of the nearest neighbours of random points in a square or a cube. A tenth of the
edges is removed and as many random ones are added, nodes are renamed, and `match_graphs` and FAQ
(SciPy's `quadratic_assignment`) are asked for the partner of each node, from the edges alone.
Said are the part of nodes that are right, the squared Gromov-Wasserstein discrepancy of the
assignment over that of the true one, and CPU seconds, of all threads together. Means over seeds.

    python examples/benchmarks/graph_matching.py                      # 300 nodes, three seeds
    python examples/benchmarks/graph_matching.py --sizes 200000 --dims 3 --changed 0.05 --ways ours
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
import torch
from reporting import machine, parser_of, timed, write_table
from scipy.optimize import quadratic_assignment
from torch import Tensor
from torch_geometric.utils import to_undirected

from jsem_pyg.neighbors import knn_graph
from jsem_pyg.transport import AdjacencyCost, match_graphs

DEGREE = 10


def by_heat(source: AdjacencyCost, target: AdjacencyCost) -> Tensor:
    return match_graphs(source, target).argmax()


def by_faq(source: AdjacencyCost, target: AdjacencyCost) -> Tensor:
    matrices = (each.dense().double().numpy() for each in (source, target))
    found = quadratic_assignment(*matrices, method="faq", options={"maximize": True})
    return torch.from_numpy(found.col_ind)


WAYS: dict[str, Callable[[AdjacencyCost, AdjacencyCost], Tensor]] = {"ours": by_heat, "FAQ": by_faq}


def make_graph(size: int, dim: int, seed: int) -> Tensor:
    """[2, E], the nearest neighbours of random points."""
    points = np.random.default_rng(seed).random((size, dim))
    return knn_graph(torch.from_numpy(points), DEGREE, "l2")[0]


def changed_copy(edge_index: Tensor, size: int, part: float, seed: int) -> tuple[Tensor, Tensor]:
    """A noisy copy [2, E] with its nodes renamed, and the new name of each node [N]."""
    generator = np.random.default_rng(seed + 1000)
    edges = edge_index[:, edge_index[0] < edge_index[1]].numpy()
    count = round(part * edges.shape[1])
    kept = edges[:, generator.permutation(edges.shape[1])[count:]]
    known, new = set(map(tuple, edges.T.tolist())), []
    while len(new) < count:
        pair = tuple(sorted(generator.integers(size, size=2).tolist()))
        if pair[0] < pair[1] and pair not in known:
            known.add(pair)
            new.append(pair)
    edges = np.concatenate([kept, np.array(new, dtype=np.int64).reshape(-1, 2).T], 1)
    name = generator.permutation(size)
    return to_undirected(torch.from_numpy(name[edges])), torch.from_numpy(name)


def difference(source: AdjacencyCost, target: AdjacencyCost, partner: Tensor) -> float:
    """The sum of |A_ik - B_jl|^2 over matched pairs."""
    moved = target.scipy()[partner.numpy()][:, partner.numpy()]
    return float((source.scipy() - moved).power(2).sum())


def main(argv: list[str] | None = None) -> pd.DataFrame:
    parser = parser_of(__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[300])
    parser.add_argument("--dims", type=int, nargs="+", default=[2, 3])
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--changed", type=float, default=0.1, help="part of the edges")
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args(argv)
    match_graphs(torch.tensor([[0, 1], [1, 0]]), torch.tensor([[0, 1], [1, 0]]))  # loads kernels
    rows = []
    for size in args.sizes:
        for dim, seed in [(dim, seed) for dim in args.dims for seed in range(args.seeds)]:
            edge_index = make_graph(size, dim, seed)
            other, name = changed_copy(edge_index, size, args.changed, seed)
            costs = [AdjacencyCost(each, num_nodes=size) for each in (edge_index, other)]
            for way in args.ways:
                partner, seconds = timed(lambda way=way, costs=costs: WAYS[way](*costs))
                row = {"dimensions": dim, "N": size, "way": way}
                row["right"] = float((partner == name).double().mean())
                row["cost / true cost"] = difference(*costs, partner) / difference(*costs, name)
                rows.append(row | {"CPU s": seconds})
                print(rows[-1], flush=True)
    table = pd.DataFrame(rows).groupby(["dimensions", "N", "way"], sort=False).mean().reset_index()
    note = f"{args.changed:.0%} of the edges changed, {args.seeds} seeds; {machine()}"
    write_table(table, args.output, "graph_matching", [note])
    return table


if __name__ == "__main__":
    main()
