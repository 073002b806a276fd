"""How fast and how exact is heat on surfaces, beside potpourri3d and beside eigenvectors?

`helpers/meshes.py` on a sphere, whose distances are known, on a body drawn by a formula, and on
your own meshes. Distances stand beside potpourri3d's heat method, which factors a matrix for each
time; signatures and the layer beside the 128 eigenvectors that DiffusionNet prepares, by SciPy's
`eigsh` as in its published code. One thread, in seconds of the processor. A mesh that is in the
table already is not measured again, so a run can be broken off.

    python examples/benchmarks/surfaces.py                             # 2,000 vertices
    python examples/benchmarks/surfaces.py --vertices 20000 200000 --output examples/results
    python examples/benchmarks/surfaces.py --vertices --meshes a.off b.obj
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
import pandas as pd
import torch
from helpers import meshes
from potpourri3d import MeshHeatMethodDistanceSolver
from reporting import machine, parser_of, timed, write_table
from scipy.sparse import diags_array
from scipy.sparse.linalg import eigsh
from torch import Tensor

from jsem_pyg.diffusion import heat_diffusion

SOURCES, COLUMNS = 8, 16
SHAPES = {
    "sphere": lambda size: meshes.Surface.of(*meshes.sphere(size)),
    "body": lambda size: meshes.body(size, np.random.default_rng(0))[0],
}


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--vertices", type=int, nargs="*", default=[2000], help="of drawn meshes")
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--meshes", type=Path, nargs="*", default=[], help="files")
    parser.add_argument("--eigenvectors", type=int, default=128, help="0: none")
    return parser.parse_args(argv)


def relative(found: np.ndarray, wanted: np.ndarray) -> float:
    return float(np.abs(found - wanted).mean() / wanted.mean())


def prepare(surface: object) -> None:
    """Weights and masses, the operator, the triangulation, and factors of the Poisson equation."""
    surface.operator.matrix.apply(torch.zeros(len(surface.points), 1, dtype=torch.float64))
    surface.solve(np.zeros(len(surface.points)))


def distances(surface: object, great_circle: np.ndarray | None) -> list[dict]:
    """Ours and potpourri3d's: preparing, one source, and each of eight more."""
    sources = np.linspace(0, len(surface.points) - 1, SOURCES).astype(int)
    _, ours_before = timed(lambda: prepare(surface))
    ours, ours_first = timed(lambda: meshes.distances(surface, sources[:1]))
    _, ours_more = timed(lambda: meshes.distances(surface, sources))
    solver, before = timed(lambda: MeshHeatMethodDistanceSolver(surface.points, surface.faces))
    peer, first = timed(lambda: solver.compute_distance(sources[0]))
    _, more = timed(lambda: [solver.compute_distance(each) for each in sources])
    rows = []
    for way, found, seconds in (
        ("ours", ours[:, 0], (ours_before, ours_first, ours_more / SOURCES)),
        ("potpourri3d", peer, (before, first, more / SOURCES)),
    ):
        names = ("prepare s", "first s", "each s")
        row = {"what": "distance", "way": way, **dict(zip(names, seconds, strict=True))}
        row["beside potpourri3d"] = relative(found, peer)
        if great_circle is not None:
            row["beside the truth"] = relative(found, great_circle)
        rows.append(row)
    if great_circle is not None:
        smooth, seconds = timed(lambda: meshes.distances(surface, sources[:1], 4.0)[:, 0])
        row = {"what": "distance", "way": "ours, four times the t", "first s": seconds}
        row |= {"beside potpourri3d": relative(smooth, peer)}
        rows.append(row | {"beside the truth": relative(smooth, great_circle)})
    return rows


def spectral(surface: object, times: Tensor, count: int) -> list[dict]:
    """Signatures and the layer's diffusion, by our series and by so many eigenvectors."""
    stiffness, mass = surface.matrices
    at = np.linspace(0, len(mass) - 1, COLUMNS).astype(int)
    exact, columns = timed(lambda: meshes.kernel_columns(surface, times, at))
    probed, probing = timed(lambda: meshes.signatures(surface, times, probes=64)[:, at])
    structure, weight, node_mass = surface.graph
    graph = structure, weight.float()
    wave = np.random.default_rng(0).normal(scale=20, size=(3, 32))
    x = torch.from_numpy(np.cos(surface.points @ wave)).float()
    t = torch.logspace(-4.5, -2.5, 32).unsqueeze(0)

    def epoch(diffuse: Callable[[Tensor, Tensor], Tensor]) -> Callable[[], None]:
        leaves = [each.clone().requires_grad_() for each in (x, t)]
        return lambda: diffuse(*leaves).square().sum().backward()

    def ours(x: Tensor, t: Tensor) -> Tensor:
        options = {"normalization": None, "tol": 1e-3, "node_mass": node_mass.float()}
        return heat_diffusion(x, *graph, t, **options)[0]

    _, ours_epoch = timed(epoch(ours))
    rows = [
        {"what": f"{COLUMNS} signatures", "way": "ours", "first s": columns},
        {"what": "all signatures, 64 probes", "way": "ours", "first s": probing},
        {"what": "layer's diffusion, 32 channels", "way": "ours", "first s": ours_epoch},
    ]
    rows[1]["beside the truth"] = relative(probed, exact)
    if count == 0:
        return rows
    matrix = diags_array(mass).tocsc()
    (value, vector), before = timed(lambda: eigsh(stiffness.tocsc(), count, matrix, sigma=-1e-8))
    by_vectors, quick = timed(
        lambda: np.square(vector[at]) @ np.exp(-np.outer(value, times.numpy()))
    )
    basis, rate = torch.from_numpy(vector).float(), torch.from_numpy(value).float()

    def by_basis(x: Tensor, t: Tensor) -> Tensor:
        spectrum = basis.T @ (node_mass.float().unsqueeze(1) * x)
        return basis @ (torch.exp(-rate.unsqueeze(1) * t) * spectrum)

    _, basis_epoch = timed(epoch(by_basis))
    way = f"{count} eigenvectors"
    with torch.no_grad():
        wanted = ours(x, t).numpy()
        error = np.linalg.norm(by_basis(x, t).numpy() - wanted) / np.linalg.norm(wanted)
    rows.append({"what": f"{COLUMNS} signatures", "way": way, "prepare s": before})
    rows[-1] |= {"first s": quick, "beside the truth": relative(by_vectors.T, exact)}
    rows.append({"what": "layer's diffusion, 32 channels", "way": way, "prepare s": before})
    rows[-1] |= {"first s": basis_epoch, "beside the truth": float(error)}
    return rows


def cases(args: argparse.Namespace) -> dict[str, Callable[[], object]]:
    """Names of meshes, and what makes each."""
    made = {
        f"{shape} {size}": lambda shape=shape, size=size: SHAPES[shape](size)
        for size in args.vertices
        for shape in args.shapes
    }
    files = {f"{path.parent.name} {path.stem}": path for path in args.meshes}
    return made | {name: lambda path=path: meshes.read(path) for name, path in files.items()}


def measure(name: str, surface: object, args: argparse.Namespace) -> list[dict]:
    truth = None
    if name.startswith("sphere"):
        radius = np.linalg.norm(surface.points, axis=1).mean()
        truth = radius * np.arccos((surface.points @ surface.points[0] / radius**2).clip(-1, 1))
    rows = distances(surface, truth)
    if name.startswith("body"):
        rows += spectral(surface, meshes.TIMES, args.eigenvectors)
    return [{"mesh": name, "N": len(surface.points), **row} for row in rows]


def write(table: pd.DataFrame, args: argparse.Namespace) -> None:
    notes = [
        "# Heat on surfaces",
        "`python examples/benchmarks/surfaces.py`: `examples/helpers/meshes.py` beside "
        "potpourri3d's heat method and beside eigenvectors by SciPy, on one thread, in seconds of "
        f"the processor. `each s` is for one of {SOURCES} sources, ours all at once. Errors are "
        "means, relative to the mean of what they stand beside: the great circle of a sphere, the "
        "kernel's exact columns, and diffusion to a tolerance of 1e-3, which the layer's rows take "
        "forward and backward. Where one mesh is passed many times, eigenvectors that were "
        "prepared once are faster than the series; the last column has what they leave out. "
        f"{machine()}.",
    ]
    write_table(table.astype({"N": int}), args.output, "surfaces", notes)


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    path = args.output / "surfaces.csv"
    table = pd.read_csv(path) if path.exists() else pd.DataFrame({"mesh": []})
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        new = {name: make for name, make in cases(args).items() if name not in set(table["mesh"])}
        if not new:
            write(table, args)
            return table
        small = meshes.Surface.of(*meshes.sphere(40))  # kernels compile, or are loaded
        distances(small, None)
        spectral(small, meshes.TIMES[-2:], 0)
        for name, make in new.items():
            table = pd.concat([table, pd.DataFrame(measure(name, make(), args))])
            write(table, args)
    finally:
        torch.set_num_threads(threads)
    return table


if __name__ == "__main__":
    main()
