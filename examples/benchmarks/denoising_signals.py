"""Denoise normals of points on a shape with creases, and gene expression, from noisy values alone.

Both learn which edges of a neighbour graph to close (`self_denoiser.py`): the normals from
themselves with noise added and subtracted, in three rounds, the expression by hiding entries from
the diffusion that predicts them ("Noise2Self", Batson and Royer, ICML 2019), since dropout has no
known noise to add.
Shapes and counts are simulated, so that the truth is known.

    python examples/benchmarks/denoising_signals.py  # writes denoising_signals.csv to --output
    python examples/benchmarks/denoising_signals.py --quick

Normals are scored by their mean error in degrees, beside isotropic heat on the same graph and a
bilateral filter, both with the parameters that are best by the truth. Expression is scored by the
share of its variance that is left as an error, beside isotropic heat on the same graph (what MAGIC
does, van Dijk et al., Cell 2018), with the time that is best by the truth and with that which
Noise2Self chooses.
"""

import itertools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import pandas as pd
import torch
import torch.nn.functional as F
from helpers import self_denoiser
from helpers.self_denoiser import Graph, recorrupt, train
from reporting import parser_of
from torch import Tensor, nn
from torch_geometric import seed_everything

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.graph import GraphStructure
from jsem_pyg.neighbors import knn_graph
from jsem_pyg.nn import AnisotropicDiffusion, MLPConductance

ROUNDS = 3  # in each, edges are judged by what the one before made of the normals
HEAT_TIMES = [0.1, 0.2, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0, 16.0]


def neighbour_graph(points: Tensor, values: Tensor, k: int) -> Graph:
    """The nearest neighbours of points, and how far apart the ends of an edge are.

    In their places, and in their values: as they are, and smoothed for a short and a longer time.
    """
    edge_index, _ = knn_graph(points, k, "l2")
    structure = GraphStructure(edge_index, len(points))
    smooth = heat_diffusion(values, structure, t=torch.tensor([0.5, 2.0]), normalization="rw")
    squares = [
        (each[edge_index[0]] - each[edge_index[1]]).square().sum(1)
        for each in (points, values, *smooth)
    ]
    columns = [(each / each.mean() + 0.01).log() for each in squares]
    return Graph(structure, torch.stack(columns, 1))


def shape(name: str, num_points: int) -> tuple[Tensor, Tensor]:
    """Points [N, 3] on a surface with creases, and their normals."""
    u, v = torch.rand(2, num_points)
    if name == "cube":
        axis, sign = torch.randint(3, (num_points,)), torch.randint(2, (num_points,)) * 2 - 1.0
        normals = F.one_hot(axis, 3) * sign[:, None]
        plane = torch.stack([torch.zeros_like(u), 2 * u - 1, 2 * v - 1], 1)
        places = (torch.arange(3) - axis[:, None]) % 3
        return normals + plane.gather(1, places), normals
    # A disc one high, of radius one, from which half is cut: two caps, a round side, a flat one.
    areas = torch.tensor([torch.pi / 2, torch.pi / 2, torch.pi, 2.0])
    part = torch.multinomial(areas, num_points, replacement=True)
    angle, radius = torch.pi * u, v.sqrt()
    circle = torch.stack([angle.cos(), angle.sin()], 1)
    up = torch.tensor([0.0, 0.0, 1.0]).expand(num_points, 3)
    caps = torch.cat([radius[:, None] * circle, (part == 0)[:, None].float()], 1)
    side = torch.cat([circle, v[:, None]], 1)
    flat = torch.stack([2 * u - 1, torch.zeros_like(u), v], 1)
    points = torch.where((part < 2)[:, None], caps, torch.where((part == 2)[:, None], side, flat))
    round_normals = torch.cat([circle, torch.zeros(num_points, 1)], 1)
    normals = torch.where((part == 0)[:, None], up, -up)
    normals = torch.where((part == 2)[:, None], round_normals, normals)
    back = torch.tensor([0.0, -1.0, 0.0])
    return points, torch.where((part == 3)[:, None], back, normals)


def degrees(normals: Tensor, clean: Tensor) -> float:
    """The mean angle between directions."""
    cosine = (F.normalize(normals, dim=1) * clean).sum(1).clamp(-1, 1)
    return float(cosine.acos().rad2deg().mean())


def bilateral(points: Tensor, normals: Tensor, graph: Graph, width: float, rounds: int) -> Tensor:
    """Means of near normals that are alike, again and again ("bilateral normal filtering")."""
    target, source = (each.long() for each in graph.structure.edges)
    squared = (points[target] - points[source]).square().sum(1)
    near = (-squared / (2 * squared.mean())).exp()
    for _ in range(rounds):
        unit = F.normalize(normals, dim=1)
        apart = (unit[target] - unit[source]).square().sum(1)
        weight = near * (-apart / (2 * width**2)).exp()
        normals = unit.index_add(0, target, weight[:, None] * unit[source])
    return normals


def denoise_normals(name: str, num_points: int, noise: float) -> dict[str, float]:
    """Errors in degrees."""
    points, clean = shape(name, num_points)
    noisy = clean + noise * torch.randn_like(clean)
    graph = neighbour_graph(points, noisy, 12)
    heat = heat_diffusion(noisy, graph.structure, t=torch.tensor(HEAT_TIMES), normalization="rw")
    filters = itertools.product((0.2, 0.3, 0.4, 0.6, 0.8, 1.0), (1, 2, 4, 8, 16))
    errors = {
        "noisy": degrees(noisy, clean),
        "heat": min(degrees(each, clean) for each in heat),
        "bilateral": min(degrees(bilateral(points, noisy, graph, *f), clean) for f in filters),
    }
    twins = [recorrupt(noisy, noise)[:2] for _ in range(self_denoiser.TILES)]
    for method, rounds in (("open", 1), ("learned, one round", 1), ("learned", ROUNDS)):
        guide, guides = noisy, [first for first, _ in twins]
        for _ in range(rounds):
            graph = neighbour_graph(points, guide, 12)
            graphs = [neighbour_graph(points, each, 12) for each in guides]
            examples = [(*twin, each) for twin, each in zip(twins, graphs, strict=True)]
            model = train(examples, is_open=method == "open", times=(2.0, 16.0))
            with torch.no_grad():
                guide = F.normalize(model(noisy, graph), dim=1)
                guides = [F.normalize(model(a, each), dim=1) for a, _, each in examples]
        errors[method] = degrees(guide, clean)
    return errors


def expression(num_cells: int, num_genes: int, steepness: float) -> tuple[Tensor, Tensor]:
    """Simulated expression [cells, genes] as it is measured, and what is expected of it.

    Five types of cells, one of them rare, each with gradients along some genes; negative binomial
    counts of cells that are seen unevenly well, of which four in ten are lost. Both are divided by
    what is seen of the cell, and by the standard deviation of the gene.
    """
    share = torch.tensor([0.4, 0.25, 0.2, 0.1, 0.05])
    kind = torch.multinomial(share, num_cells, replacement=True)
    log_mean = 0.5 + 0.8 * torch.randn(num_genes)
    is_marker = torch.rand(5, num_genes) < 0.15
    level = log_mean + torch.randn(5, num_genes) * is_marker
    slope = torch.randn(5, num_genes) * (torch.rand(5, num_genes) < 0.15)
    place = torch.rand(num_cells, 1) - 0.5
    mean = (level[kind] + steepness * place * slope[kind]).exp()
    depth = (0.4 * torch.randn(num_cells, 1)).exp()
    dispersion = 2.0
    rate = torch.distributions.Gamma(dispersion, dispersion / (mean * depth)).sample()
    counts = torch.poisson(rate) * (torch.rand_like(mean) < 0.6)
    measured, expected = counts / depth, 0.6 * mean
    scale = measured.std(0).clamp(min=1e-6)
    return measured / scale, expected / scale


class Imputer(nn.Module):
    """Means of the entries that are seen, over a short and a longer time of heat."""

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.diffusion = AnisotropicDiffusion(
            edge_dim=num_features,
            t=[1.0, 4.0],
            conductance=MLPConductance(num_features, 16, rate=4.0),
            normalization="rw",
        )
        self.mix = nn.Parameter(torch.full((2,), 0.5))

    def forward(self, x: Tensor, is_seen: Tensor, graph: Graph) -> Tensor:
        columns = torch.cat([x * is_seen, is_seen], 1)
        heat = self.diffusion(columns, graph.structure, edge_attr=graph.attr)
        means = (seen_mean(each) for each in heat.chunk(2, 1))
        return sum(weight * mean for weight, mean in zip(self.mix, means, strict=True))


def seen_mean(columns: Tensor) -> Tensor:
    """What came of the values that are seen, by what came of the ones that say so."""
    values, weight = columns.chunk(2, 1)
    return values / weight.clamp(min=1e-6)


def cell_graph(x: Tensor, is_seen: Tensor) -> Graph:
    """Neighbours by principal components of what is seen; what is not is the gene's mean."""
    mean = (x * is_seen).sum(0) / is_seen.sum(0).clamp(min=1)
    centred = (x - mean) * is_seen
    _, _, axes = torch.linalg.svd(centred, full_matrices=False)
    scores = centred @ axes[:15].t()
    return neighbour_graph(scores, scores, 15)


def denoise_expression(num_cells: int, num_genes: int, steepness: float) -> dict[str, float]:
    """Errors, as shares of the variance of what is expected."""
    x, clean = expression(num_cells, num_genes, steepness)
    variance = (clean - clean.mean(0)).square().mean()

    def error(out: Tensor) -> float:
        return float((out - clean).square().mean() / variance)

    times, everything = torch.tensor(HEAT_TIMES), torch.ones_like(x)
    graph = cell_graph(x, everything)
    heat = heat_diffusion(x, graph.structure, t=times, normalization="rw")
    masks = [(torch.rand_like(x) > 0.1).float() for _ in range(self_denoiser.TILES)]
    graphs = [cell_graph(x, mask) for mask in masks]
    hidden = torch.zeros(len(times))
    for mask, each in zip(masks, graphs, strict=True):
        columns = torch.cat([x * mask, mask], 1)
        out = heat_diffusion(columns, each.structure, t=times, normalization="rw")
        for index, scale in enumerate(out):
            hidden[index] += ((seen_mean(scale) - x) * (1 - mask)).square().sum()
    errors = {
        "noisy": error(x),
        "heat": min(error(each) for each in heat),
        "heat, time by Noise2Self": error(heat[hidden.argmin()]),
    }
    for method in ("open", "learned"):
        model = Imputer(graph.attr.size(1))
        if method == "open":
            model.diffusion.conductance.requires_grad_(False)
        optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], 0.02)
        for step in range(self_denoiser.STEPS):
            mask = masks[step % len(masks)]
            out = model(x, mask, graphs[step % len(masks)])
            optimizer.zero_grad()
            ((out - x) * (1 - mask)).square().mean().backward()
            optimizer.step()
        with torch.no_grad():
            errors[method] = error(model(x, everything, graph))
    return errors


def main(argv: list[str] | None = None) -> pd.DataFrame:
    parser = parser_of(__doc__, "output/denoising")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="few points, few steps")
    args = parser.parse_args(argv)
    if args.quick:
        self_denoiser.STEPS, self_denoiser.TILES, args.seeds = 4, 2, 1
    size = 300 if args.quick else 3000
    cells = (150, 40) if args.quick else (1000, 300)
    tasks = {
        f"{name}, noise {noise}": (denoise_normals, (name, size, noise))
        for name in ("cube", "half disc")
        for noise in (0.2, 0.4)
    }
    for name, steepness in (("types", 0.0), ("types with gradients", 1.5)):
        tasks[f"expression, {name}"] = (denoise_expression, (*cells, steepness))
    rows = []
    for (task, (function, arguments)), seed in itertools.product(tasks.items(), range(args.seeds)):
        seed_everything(seed)
        errors = function(*arguments)
        rows += [{"task": task, "seed": seed, "method": m, "error": e} for m, e in errors.items()]
        print(task, seed, {method: round(value, 3) for method, value in errors.items()})
    runs = pd.DataFrame(rows)
    args.output.mkdir(parents=True, exist_ok=True)
    runs.to_csv(args.output / "denoising_signals.csv", index=False)
    print(runs.groupby(["task", "method"], sort=False)["error"].agg(["mean", "std"]).round(3))
    return runs


if __name__ == "__main__":
    main()
