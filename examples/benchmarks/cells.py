"""What does jsem_pyg.anndata cost on cells, and what does it recover, beside its peers?

    python examples/benchmarks/cells.py
    python examples/benchmarks/cells.py --cells 50000 --genes 2000 --seeds 0 --repeat 1  # adds rows

MAGIC (`magic-impute`) and `moscot` are compared with where they are installed. What is in the table
already is not measured again. Each job is a process of its own, from normalised expression to its
result: seconds of the processor, of all threads together (which do not depend on what else a
machine does), and how much memory it took beyond the expression. Cells are simulated on a tree of
three branches, with Poisson counts, so that what was there before noise and dropout is known. With
`--alignment FOLDER` (`snare-seq.npz`, `scgem.npz`) cells of two kinds of measurement are aligned as
well.
"""

import importlib.util
import itertools
import logging
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from reporting import PeakMemory, Rows, isolated, markdown, parser_of, timed
from scipy.sparse import csr_matrix

PUBLISHED = {"snare-seq": "SCOT, best of its grid: 0.150", "scgem": "SCOT, best of its grid: 0.192"}
DEPTH = 2000.0  # counts a cell
EPSILONS = (0.001, 0.005, 0.01, 0.05)  # of moscot
SIDES = {"snare-seq": ("atac", "rna"), "scgem": ("expression", "methylation")}


def simulate(cells: int, genes: int, depth: float, seed: int) -> tuple[np.ndarray, ...]:
    """Normalised expression with dropout, the same without, and the time of each cell.

    Genes are logistic curves in the time along one of three branches that begin together.
    """
    rng = np.random.default_rng(seed)
    moment, branch = rng.random(cells).astype(np.float32), rng.integers(3, size=cells)
    steep = rng.uniform(-12, 12, genes).astype(np.float32)
    middle, height = rng.random(genes).astype(np.float32), rng.lognormal(0, 1, genes)
    active = rng.random((3, genes)) < 0.5
    shared = active[0]
    rate = np.empty((cells, genes), np.float32)
    for each in range(3):
        rows = branch == each
        late = np.where(active[each], 1, 0.2) * (moment[rows, None] > 0.4)
        early = np.where(shared, 1, 0.2) * (moment[rows, None] <= 0.4)
        curve = 1 / (1 + np.exp(-steep * (moment[rows, None] - middle)))
        rate[rows] = height * curve * (late + early) + 0.02
    rate /= rate.sum(1, keepdims=True)
    counts = rng.poisson(rate * depth).astype(np.float32)
    total = np.maximum(counts.sum(1, keepdims=True), 1)
    counts *= 1e4 / total
    rate *= 1e4
    return np.log1p(counts, out=counts), np.log1p(rate, out=rate), moment


def components(x: np.ndarray) -> Any:
    import anndata
    from sklearn.decomposition import PCA

    adata = anndata.AnnData(x)
    adata.obsm["X_pca"] = PCA(50, svd_solver="randomized", random_state=0).fit_transform(x)
    return adata


def ours(x: np.ndarray, t: float) -> np.ndarray:
    """Heat along scanpy's neighbours."""
    import scanpy

    from jsem_pyg.anndata import heat

    adata = components(x)
    scanpy.pp.neighbors(adata)
    heat(adata, t)
    return adata.layers["heat"]


def ours_by_knn(x: np.ndarray, t: float) -> np.ndarray:
    """Heat along the neighbours of `knn_graph`."""
    import torch

    from jsem_pyg.anndata import heat
    from jsem_pyg.neighbors import knn_graph

    adata = components(x)
    edges, weight = knn_graph(torch.from_numpy(adata.obsm["X_pca"]), 15, "l2")
    adata.obsp["connectivities"] = csr_matrix((weight.numpy(), edges.numpy()), (len(x), len(x)))
    heat(adata, t)
    return adata.layers["heat"]


def magic(x: np.ndarray, t: int | str) -> np.ndarray:
    from magic import MAGIC

    return np.asarray(MAGIC(t=t, random_state=0, n_jobs=1, verbose=0).fit_transform(x))


JOBS = {
    "jsem_pyg heat, t = 1": (ours, 1.0),
    "jsem_pyg heat, t = 4": (ours, 4.0),
    "jsem_pyg heat, t = 10": (ours, 10.0),
    "knn_graph and jsem_pyg heat, t = 4": (ours_by_knn, 4.0),
    "MAGIC, t = 3 (its default)": (magic, 3),
}
PACKAGES = {magic: "magic"}


def job(name: str, cells: int, genes: int, seed: int) -> dict[str, float]:
    """One job in a process of its own: seconds, memory in units of dense X, and a score."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    import anndata  # noqa: F401
    import torch

    torch.set_num_threads(1)
    method, option = JOBS[name]
    least = 9000 if cells > 8192 else 200  # scanpy has one search up to 8,192, another beyond
    small = simulate(least, 100, DEPTH, 0)[0]
    method(small, option)  # imports and compiles
    x, truth, moment = simulate(cells, genes, DEPTH, seed)
    order = np.argsort(moment, kind="stable")
    x, truth = x[order], truth[order]
    memory = PeakMemory()
    result, seconds = timed(lambda: method(x, option))
    memory = memory.stop() / x.nbytes
    score, raw = recovered(result, truth), recovered(x, truth)
    digest = float(np.abs(np.asarray(result, np.float64)).sum())
    return {"seconds": seconds, "memory": memory, "score": score, "raw": raw, "sum": digest}


def recovered(x: np.ndarray, truth: np.ndarray) -> float:
    """The mean correlation of each gene over cells with what it was before the noise."""
    values = []
    for gene in range(0, x.shape[1], max(1, x.shape[1] // 200)):
        one, two = x[:, gene], truth[:, gene]
        if one.std() > 0 and two.std() > 0:
            values.append(np.corrcoef(one, two)[0, 1])
    return float(np.mean(values))


def is_installed(name: str) -> bool:
    package = PACKAGES.get(JOBS[name][0])
    return package is None or importlib.util.find_spec(package) is not None


def foscttm(projected: np.ndarray, own: np.ndarray) -> float:
    """The share of cells that are closer to a cell's projection than its own other view."""
    distance = ((projected[:, None] - own[None]) ** 2).sum(2)
    return float((distance < np.diag(distance)[:, None]).mean())


def align_by_moscot(source: Any, target: Any, epsilon: float) -> None:
    """Projections of the source onto the target's places, by moscot's translation."""
    from moscot.problems.cross_modality import TranslationProblem

    problem = TranslationProblem(adata_src=source, adata_tgt=target)
    problem = problem.prepare(src_attr="X_pca", tgt_attr="X_pca").solve(epsilon=epsilon)
    pair = next(iter(problem.solutions))
    source.obsm["X_align"] = np.asarray(problem.translate(*pair, forward=True))
    back = problem.translate(*pair, forward=False, alternative_attr="X_pca")
    target.obsm["X_align"] = np.asarray(back)


def alignments(folder: Path) -> pd.DataFrame:
    import anndata

    from jsem_pyg.anndata import align

    ways = {"jsem_pyg": align}
    if importlib.util.find_spec("moscot"):
        ways |= {f"moscot, epsilon={e}": partial(align_by_moscot, epsilon=e) for e in EPSILONS}
    rows = []
    for (name, keys), (way, method) in itertools.product(SIDES.items(), ways.items()):
        stored = np.load(folder / f"{name}.npz")
        sides = []
        for key in keys:
            x = stored[key].astype(np.float32)
            adata = anndata.AnnData(np.ones((len(x), 1), np.float32))  # moscot refuses no gene
            adata.var_names = [key]  # none that both share
            adata.obsm["X_pca"] = x / np.linalg.norm(x, axis=1, keepdims=True)
            sides.append(adata)
        _, seconds = timed(lambda: method(*sides))  # noqa: B023
        scores = [
            foscttm(side.obsm["X_align"], other.obsm["X_pca"])
            for side, other in (sides, sides[::-1])
        ]
        rows.append(
            {
                "data": name,
                "cells": len(x),
                "way": way,
                "FOSCTTM": f"{np.mean(scores):.4f}",
                "CPU s": f"{seconds:.0f}",
                "published": PUBLISHED[name],
            }
        )
    return pd.DataFrame(rows)


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    table = []
    for name, group in rows.groupby("job", sort=False):
        sums = group.groupby("seed")["sum"]
        spread = (sums.max() / sums.min() - 1).max() if len(group) > sums.ngroups else np.nan
        table.append(
            {
                "job": name,
                "seconds": f"{group.seconds.mean():.1f} ({group.seconds.min():.1f} to "
                f"{group.seconds.max():.1f})",
                "memory / X": f"{group.memory.mean():.2f}",
                "score": f"{group.score.mean():.3f} ± {group.score.std(ddof=0):.3f}",
                "two runs differ by": "" if np.isnan(spread) else f"{spread:.1g}",
            }
        )
    return pd.DataFrame(table)


def section(cells: int, genes: int, rows: pd.DataFrame) -> list[str]:
    """The table of one size."""
    seeds = ", ".join(map(str, sorted(set(rows.seed))))
    parts = [
        f"## {cells:,} cells x {genes:,} genes",
        f"X has {cells * genes * 4 / 1e6:,.0f} MB; seeds {seeds}; the score of X itself is "
        f"{rows.raw.mean():.3f}.",
        markdown(summarise(rows)),
    ]
    by_job = rows.groupby("job").seconds.mean()
    peers = [each for each in by_job.index if each.startswith("MAGIC")]
    for name in (name for name in by_job.index if peers and name.endswith("t = 4")):
        ratio = by_job[peers[0]] / by_job[name]
        parts.append(f"MAGIC takes {ratio:.1f} times the processor time of '{name}'.")
    return parts


def page(rows: pd.DataFrame, aligned: pd.DataFrame | None) -> str:
    parts = [
        "# Cells",
        "`python examples/benchmarks/cells.py`: simulated cells of 2,000 counts each, on one "
        "thread. Each job starts from normalised expression X (dense, float32) and includes "
        "principal components and neighbours: scanpy's, or those of `knn_graph`. Seconds are those "
        "of the processor. Memory is the "
        "peak beyond X, in units of X; the result of heat and MAGIC is one X itself. The score of "
        "heat and MAGIC is the mean correlation of genes with what they were before Poisson noise.",
    ]
    for (cells, genes), some in rows.groupby(["cells", "genes"]):
        parts += section(cells, genes, some)
    if aligned is not None:
        parts += [
            "## Two kinds of measurement of the same cells",
            "`align` as it is called by default, on rows of length one; and moscot's translation, "
            "whose default epsilon is 0.01. FOSCTTM is the mean share of cells that are closer to "
            "a cell's projection than its own other view, of both directions. No way saw pairs.",
            markdown(aligned),
        ]
    return "\n\n".join(parts) + "\n"


def main(argv: list[str] | None = None) -> pd.DataFrame:
    parser = parser_of(__doc__)
    parser.add_argument("--cells", type=int, default=5000)
    parser.add_argument("--genes", type=int, default=1000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--repeat", type=int, default=2, help="runs of each seed")
    parser.add_argument("--jobs", nargs="+", help="some of the jobs, by how they begin")
    parser.add_argument("--alignment", type=Path, help="folder of the pairs")
    args = parser.parse_args(argv)
    names = [name for name in JOBS if is_installed(name)]
    if args.jobs:
        names = [name for name in names if name.startswith(tuple(args.jobs))]
    second = args.output / "cells_aligned.csv"
    rows = Rows(args.output / "cells.csv", "cells", "genes", "seed", "run", "job")
    for run in itertools.product([args.cells], [args.genes], args.seeds, range(args.repeat), names):
        if not rows.has(*run):
            found = isolated(job, run[-1], *run[:3])
            rows.add(dict(zip(rows.key, run, strict=True)) | found)
    if args.alignment:
        alignments(args.alignment).to_csv(second, index=False)
    table = rows.table().dropna(subset=["seconds"])
    text = page(table, pd.read_csv(second, dtype=str) if second.exists() else None)
    print(text)
    (args.output / "cells.md").write_text(text)
    return table


if __name__ == "__main__":
    main()
