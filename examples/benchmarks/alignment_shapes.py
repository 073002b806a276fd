"""Points of two shapes in space: how soon, how well, and how near the marginals?

A shape and a copy of it, turned and in another order; and the same places on the shape in another
pose. Ways: `gromov_wasserstein`, and CNT-GW by its authors (Houry, Feydy and Vialard) from
`--peers DIR`, a folder with a clone of github.com/guillaumeHoury/egw-solvers, whose code is run as
in its main.py (it needs pykeops and a C++ compiler). Shapes: two triangle meshes of the same
triangles (`--meshes A B`); or the horses of egw-solvers; or, without either, a bent horn.

Every plan is scored alike: "right" is the share of points whose likeliest partner is the true one,
"near" the share with one within a twentieth of the diameter of it. The energies are means of
|C_ik - D_jl|^2 over 3,000 draws (i, j) of the plan, all against all, for squared distances and for
distances, over the mean of C^2: a plan of one temperature has lower ones than a warmer plan.
"marginals" is the sum of what points miss or have too much, on the side where that is more.

    export OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1
    python examples/benchmarks/alignment_shapes.py --peers DIR
    python examples/benchmarks/alignment_shapes.py --peers DIR --points 177000 --ways defaults
"""

import argparse
import importlib
import itertools
import math
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from reporting import PeakMemory, Rows, isolated, machine, markdown, parser_of
from torch import Tensor

from jsem_pyg.transport import ColumnCost, FeatureCost, Plan, gromov_wasserstein
from jsem_pyg.transport.plan.scores import FactoredScores

PEER = "egw-solvers"
HORSES = ("data/00049424_ferrari.ply", "data/muybridge_014_01.ply")
EPSILON, RANK = 1e-3, 20  # of egw-solvers' main.py, as what follows
SOLVER = {"eps": EPSILON, "numItermax": 100, "stop_criterion": "energy", "stopThr": 1e-5}
SOLVER |= {"SINK_ARGS": {"numItermax": 50, "symmetrize": True}}
CASES = ("turned copy", "other pose")
WARM_UP = 400  # points
DRAWS, NEAR = 3000, 0.05
RUN = ["case", "points", "way", "threads"]


class Case(NamedTuple):
    """Two sets of points, and the partners of the first ones."""

    source: Tensor  # [N, 3]
    target: Tensor  # [N, 3]
    partner: Tensor  # [N]


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    add = parser.add_argument
    add("--points", type=int, nargs="+", default=[5000])
    add("--cases", nargs="+", choices=CASES, default=list(CASES))
    add("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    add("--meshes", type=Path, nargs=2, help="files of the same triangles, which trimesh reads")
    add("--peers", type=Path, help=f"folder with a clone of {PEER}")
    add("--peer-points", type=int, default=20_000, help="more points are for ours alone")
    add("--threads", type=int, default=1)
    add("--limit", type=float, default=3600, help="seconds for one run")
    return parser.parse_args(argv)


def horn(bend: float) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and triangles of a horn with a ridge, bent to a part of a circle."""
    along, around = np.meshgrid(np.linspace(0, 1, 60), np.linspace(0, 2 * np.pi, 40), indexing="ij")
    width = 0.04 + 0.16 * along**2 * (1 + 0.3 * np.cos(around) + 0.2 * np.sin(2 * around))
    place = np.stack([along, width * np.cos(around), width * np.sin(around)], -1).reshape(-1, 3)
    angle, radius = bend * place[:, 0], 1 / bend - place[:, 1]
    vertices = np.stack([radius * np.sin(angle), 1 / bend - radius * np.cos(angle), place[:, 2]], 1)
    corner = (np.arange(59)[:, None] * 40 + np.arange(39)).reshape(-1)
    halves = (corner, corner + 40, corner + 1), (corner + 1, corner + 40, corner + 41)
    return vertices, np.concatenate([np.stack(each, 1) for each in halves])


def poses(args: argparse.Namespace) -> tuple[str, list[np.ndarray], np.ndarray]:
    """The name of the shape, the vertices [V, 3] of two poses, and triangles [F, 3]."""
    files = args.meshes
    if files is None and args.peers is not None and (args.peers / PEER).is_dir():
        files = [args.peers / PEER / each for each in HORSES]
    if files is None:
        both = [horn(bend) for bend in (0.3, 1.2)]
        return "horns", [vertices for vertices, _ in both], both[0][1]
    import trimesh

    read = [trimesh.load(file, process=False) for file in files]
    if not np.array_equal(*(each.faces for each in read)):
        raise SystemExit("--meshes need the same triangles in the same order")
    names = " and ".join(file.stem for file in files)
    return names, [np.asarray(each.vertices) for each in read], np.asarray(read[0].faces)


def make_case(args: argparse.Namespace, name: str, num_points: int) -> Case:
    """The same random places on both shapes, by area on the first; the second is turned."""
    _, vertices, faces = poses(args)
    draw = np.random.default_rng(0)
    corners = vertices[0][faces]
    area = np.linalg.norm(
        np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1
    )
    face = draw.choice(len(faces), num_points, p=area / area.sum())
    weight = draw.dirichlet(np.ones(3), num_points)[:, :, None]
    second = vertices[CASES.index(name)]
    first, second = ((each[faces[face]] * weight).sum(1) for each in (vertices[0], second))
    turn = np.linalg.qr(draw.standard_normal((3, 3)))[0]
    turn[:, 0] *= np.sign(np.linalg.det(turn))
    order = draw.permutation(num_points)
    sides = (torch.from_numpy(each).float() for each in (first, (second @ turn)[order]))
    return Case(*sides, torch.from_numpy(np.argsort(order)))


def ours(make: Callable[[Tensor], Any], **options: Any) -> Callable[..., Plan]:
    def align(case: Case, peers: Path | None) -> Plan:
        return gromov_wasserstein(make(case.source), make(case.target), progress=False, **options)

    return align


def distances(x: Tensor) -> Any:
    """A factor of |x_i - x_k|, of as many dimensions as the peer takes."""
    return ColumnCost(lambda nodes: torch.cdist(x, x[nodes]), len(x)).factor(rank=RANK)


def theirs(name: str, has_distances: bool = False, **options: Any) -> Callable[..., Plan]:
    def align(case: Case, peers: Path) -> Plan:
        sys.path.insert(0, str(peers / PEER))
        solvers, costs = (importlib.import_module(each) for each in ("solvers", "utils.math.costs"))
        np.random.seed(0)  # noqa: NPY002 - theirs is the global one
        sides = case.source.contiguous(), case.target.contiguous()
        made = getattr(solvers, name)
        if has_distances:
            cost = lambda u, v: costs.euclidean(u, v, p=1)  # noqa: E731
            solver = made(*sides, cost, approx_dims=RANK, **SOLVER, **options)
        else:
            solver = made(*sides, **SOLVER, **options)
        solver.solve(verbose=False)
        return as_plan(solver)

    return align


def as_plan(solver: Any) -> Plan:
    """T_ij = a_i b_j exp((f_i + g_j + 16 x_i Z y_j + 4 |x_i|^2 |y_j|^2) / eps), in bits."""
    unit = math.log2(math.e) / solver.eps
    u = torch.cat([16 * solver.X_centered @ solver.Z, 4 * solver.X_sqnorm], 1).double() * unit
    v = torch.cat([solver.Y_centered, solver.Y_sqnorm], 1).double()
    scaled = solver.sinkhorn_solver
    sides = ((scaled.f, solver.a), (scaled.g, solver.b))
    f, g = (each.double() * unit + mass.double().log2() for each, mass in sides)
    return Plan(FactoredScores(u, v, f, g), math.nan, solver.eps)


ABSOLUTE = {"epsilon": EPSILON, "absolute": True}
WAYS: dict[str, tuple[Callable[..., Plan], bool]] = {  # and whether it is the peer's
    "defaults": (ours(torch.Tensor.contiguous), False),
    "squared distances": (ours(FeatureCost(), **ABSOLUTE), False),
    "QuadraticGW": (theirs("QuadraticGW"), True),
    "MultiscaleQuadraticGW": (theirs("MultiscaleQuadraticGW", ratio=0.1), True),
    "distances": (ours(distances, **ABSOLUTE), False),
    "CntGW": (theirs("CntGW", True), True),
    "MultiscaleCntGW": (theirs("MultiscaleCntGW", True, ratio=0.1), True),
}


def missing(args: argparse.Namespace, way: str, num_points: int) -> str:
    """Why a way cannot run here, or nothing."""
    if not WAYS[way][1]:
        return ""
    if args.peers is None:
        return "no --peers"
    if not (args.peers / PEER).is_dir():
        return f"no folder {PEER} in --peers"
    if find_spec("pykeops") is None:
        return "pykeops is not installed"
    too_many = num_points > args.peer_points
    return f"not run on more than {args.peer_points} points" if too_many else ""


def measure(args: argparse.Namespace, case: str, num_points: int, way: str) -> dict[str, Any]:
    align = WAYS[way][0]
    torch.set_num_threads(args.threads)
    align(make_case(args, case, min(WARM_UP, num_points)), args.peers)  # loads and compiles
    made = make_case(args, case, num_points)
    memory, cpu, wall = PeakMemory(), time.process_time(), time.perf_counter()
    plan = align(made, args.peers)
    spent = {"CPU s": time.process_time() - cpu, "wall s": time.perf_counter() - wall}
    spent["MB"] = memory.stop() / 2**20
    return scores(made, plan) | spent


def scores(case: Case, plan: Plan) -> dict[str, float]:
    size = len(case.source)
    partner = plan.argmax()
    off = (case.target[partner] - case.target[case.partner]).norm(dim=1)
    diameter = (case.target.amax(0) - case.target.amin(0)).norm()
    missed = max(float((each.double() - 1 / size).abs().sum()) for each in plan.marginals())
    found = {
        "right": float((partner == case.partner).double().mean()),
        "near": float((off < NEAR * diameter).double().mean()),
        "marginals": missed,
    }
    draw = torch.Generator().manual_seed(0)
    rows = torch.randint(size, (DRAWS,), generator=draw)
    u, v, f, g = plan.scores
    columns = [
        torch.multinomial((u[row] @ v.T + f[row, None] + g).exp2(), 1, generator=draw)
        for row in rows.split(100)
    ]
    first = torch.cdist(case.source[rows], case.source[rows]).double()
    second = case.target[torch.cat(columns)[:, 0]]
    second = torch.cdist(second, second).double()
    for name, power in (("energy, squared", 2), ("energy", 1)):
        c, d = first**power, second**power
        found[name] = float((c - d).square().mean() / c.square().mean())
    return found


def run_all(args: argparse.Namespace) -> pd.DataFrame:
    """All runs, of which those in the file are not repeated, if they have an answer."""
    rows = Rows(args.output / "alignment_shapes.csv", *RUN)
    for key in itertools.product(args.cases, args.points, args.ways, [args.threads]):
        if not rows.has(*key):
            case, num_points, way, _ = key
            note = missing(args, way, num_points)
            given = args, case, num_points, way
            found = {"note": note} if note else isolated(measure, *given, limit=args.limit)
            rows.add(dict(zip(RUN, key, strict=True)) | {"shape": poses(args)[0]} | found)
    return pd.read_csv(rows.path, dtype={"note": str})


PAGE = """# Points of two shapes

Written by `examples/benchmarks/alignment_shapes.py`. {machine}. Shapes: {shapes}.

"defaults", "squared distances" and "distances" are `gromov_wasserstein`: without options; with
`FeatureCost()`; and with a factor of rank {rank} of the distances, the latter two at the absolute
temperature of the peers. QuadraticGW, CntGW and their multiscale versions are those of
github.com/guillaumeHoury/egw-solvers (squared distances, and distances in {rank} dimensions), with
the settings of its main.py. **right**: the likeliest partner is the true one; **near**: within a
twentieth of the diameter of it. **marginals**: mass missed or too much. **energy**: mean of
|C - D|^2 over that of C^2, of {draws} draws of the plan, for squared distances and for distances.
CPU seconds and peak memory beyond the points, {threads} threads. Rows without a peak are
of a run that did not measure it right; wall seconds count only where nothing else runs.

{table}

{skipped}
"""


def page(rows: pd.DataFrame) -> str:
    done, failed = rows[rows["right"].notna()], rows[rows["right"].isna()]
    names = [
        *RUN,
        "right",
        "near",
        "energy, squared",
        "energy",
        "marginals",
        "CPU s",
        "wall s",
        "MB",
    ]
    digits = {"marginals": ".1e", "CPU s": ".1f", "wall s": ".0f", "MB": ".0f"}
    table = done[names].copy()
    for name in table.columns[4:]:
        form = digits.get(name, ".4f")
        table[name] = ["" if math.isnan(value) else format(value, form) for value in table[name]]
    notes = [f"- {row.way}, {row.points} points: {row.note}." for row in failed.itertuples()]
    return PAGE.format(
        machine=machine(),
        shapes="; ".join(rows["shape"].unique()),
        rank=RANK,
        draws=DRAWS,
        threads=" or ".join(str(each) for each in sorted(rows["threads"].unique())),
        table=markdown(table),
        skipped="\n".join(["Not run:", "", *dict.fromkeys(notes)]) if notes else "",
    )


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    rows = run_all(args)
    (args.output / "alignment_shapes.md").write_text(page(rows))
    return rows


if __name__ == "__main__":
    main()
