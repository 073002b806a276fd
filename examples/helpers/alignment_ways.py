"""Ways to match two graphs: ours, those of installed packages, and peers from folders.

A way takes two adjacency matrices (SciPy, symmetric, without weights) and the name of the case. It
returns either a partner for every node of the source, or how well every pair fits [N, K], from
which the best assignment is taken. Peers' code is run, never copied: `--peers DIR` names a folder
with clones of github.com/constantinosskitsas/Framework_GraphAlignment and
github.com/MaxQ545/IterAlign. Their parameters are those of their own code.
"""

import importlib
import sys
import types
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment, quadratic_assignment
from scipy.sparse import csr_array

from jsem_pyg.transport import AdjacencyCost, match_graphs

FRAMEWORK, ITERALIGN = "Framework_GraphAlignment", "IterAlign"

# What Framework_GraphAlignment gives in experiment/__init__.py.
FUGAL_MU = {"bio-celegans": 0.1, "inf-euroroad": 2}  # 1 otherwise
# And IterAlign in config.py for its own pairs; other graphs get those of the smallest.
ITERATIVE = {
    "Facebook-Twitter": {"num_dp_select": 10, "num_diffusion_select": 20, "diffusion_step": 5},
    "DBLP1-DBLP2": {"num_dp_select": 200, "num_diffusion_select": 30, "diffusion_step": 7},
    "Arxiv1-Arxiv2": {"num_dp_select": 100, "num_diffusion_select": 100, "diffusion_step": 8},
}

Way = Callable[[csr_array, csr_array, str, Path | None], Any]


def cost_of(graph: csr_array) -> AdjacencyCost:
    """A matrix as `match_graphs` takes it."""
    edges = torch.from_numpy(np.stack(graph.tocoo().coords).astype(np.int64))
    return AdjacencyCost(edges, num_nodes=graph.shape[0])


def ours(source: csr_array, target: csr_array, *_: Any) -> np.ndarray:
    return match_graphs(cost_of(source), cost_of(target)).argmax().numpy()


def faq(source: csr_array, target: csr_array, *_: Any) -> np.ndarray:
    """SciPy's; the smaller graph is filled up with nodes that have no edge."""
    first, second = (
        padded(each, max(source.shape[0], target.shape[0])) for each in (source, target)
    )
    found = quadratic_assignment(first, second, method="faq", options={"maximize": True})
    partner = found.col_ind[: source.shape[0]]
    return np.where(partner < target.shape[0], partner, -1)


def graspologic(source: csr_array, target: csr_array, *_: Any) -> np.ndarray:
    from graspologic.match import graph_match

    found = graph_match(source.toarray(), target.toarray(), n_init=1, rng=0)
    partner = np.full(source.shape[0], -1)
    partner[found.indices_A] = found.indices_B
    return partner


def fugal(source: csr_array, target: csr_array, case: str, peers: Path) -> np.ndarray:
    main = framework(peers, "FUGAL.Fugal")
    return main(dense(source, target), 15, True, FUGAL_MU.get(case, 1)).numpy()


def iteralign(source: csr_array, target: csr_array, case: str, peers: Path) -> np.ndarray:
    """Pairs in the order that it finds them; the ranks of the others follow its own."""
    from torch_geometric.data import Data

    sys.path.insert(0, str(peers / ITERALIGN / "models"))
    model = importlib.import_module("oIterAlign").oIterAlign
    sides, degrees = [], []
    for each in (source, target):
        looped = with_loops(each.toarray())  # it divides by degrees
        edges = np.stack(np.nonzero(np.triu(looped)))
        sides.append(Data(edge_index=torch.from_numpy(edges), num_nodes=len(looped)))
        degrees.append(np.sort(looped.sum(1))[::-1])
    config = ITERATIVE.get(case.split("_")[0], ITERATIVE["Facebook-Twitter"])
    enough = config["num_dp_select"] - 1  # nodes of that degree have to be there
    least_degree = min(6, *(int(degree[enough]) for degree in degrees))
    config = {"device": "cpu", "seed": 42, "dp_min_degree": least_degree} | config
    least = min(source.shape[0], target.shape[0])
    links, ranks, _ = model(config).run(*sides, dict.fromkeys(range(least)))
    scores = np.full((source.shape[0], target.shape[0]), -np.inf)
    for node, partner, order in zip(*links, ranks, strict=True):
        scores[node, order] = -np.arange(len(order))
        scores[node, partner] = 1  # it ranks candidates that are taken already, too
    return scores


WAYS: dict[str, tuple[Way, str | None]] = {  # and the module or folder that it needs
    "ours": (ours, None),
    "FAQ (SciPy)": (faq, None),
    "graspologic": (graspologic, "graspologic"),
    "FUGAL": (fugal, FRAMEWORK),
    "IterAlign": (iteralign, ITERALIGN),
}
# In the order of the tables. GRAMPA, CONE and GRASP were never among the best two of a case: commit
# c1abfc32 is the last that runs them.
NAMES = [*list(WAYS)[:4], "GRAMPA", "CONE", "GRASP", "IterAlign"]


def missing(way: str, peers: Path | None) -> str:
    """Why a way cannot run here, or nothing."""
    needs = WAYS[way][1]
    if needs is None:
        return ""
    if needs not in (FRAMEWORK, ITERALIGN):
        return "" if find_spec(needs) else f"{needs} is not installed"
    if peers is None:
        return "no --peers"
    return "" if (peers / needs).is_dir() else f"no folder {needs} in --peers"


def match(
    way: str, source: csr_array, target: csr_array, case: str, peers: Path | None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Partners [N], -1 where there is none, and the scores of all pairs where the way has any."""
    found = WAYS[way][0](source, target, case, peers)
    if found.ndim == 1:
        return found, None
    scores = found[: source.shape[0], : target.shape[0]]
    finite = np.isfinite(scores)
    if not finite.any():
        raise ValueError("all scores are infinite or NaN")
    least = scores[finite].min()
    scores = np.where(finite, scores, least - 1)
    partner = np.full(len(scores), -1)
    row, column = linear_sum_assignment(scores, maximize=True)
    partner[row] = column
    return partner, scores


def framework(peers: Path, name: str) -> Callable[..., Any]:
    """The main function of one algorithm, without importing all of them and what they need."""
    root = peers / FRAMEWORK
    sys.path.insert(0, str(root))
    for package in ("algorithms", f"algorithms.{name.split('.')[0]}"):
        module = types.ModuleType(package)
        module.__path__ = [str(root.joinpath(*package.split(".")))]
        sys.modules[package] = module
    return importlib.import_module(f"algorithms.{name}").main


def dense(source: csr_array, target: csr_array) -> dict[str, np.ndarray]:
    """The peers' input: equally many nodes; one without an edge gets a loop."""
    size = max(source.shape[0], target.shape[0])
    first, second = (with_loops(padded(each, size)) for each in (source, target))
    return {"Src": first, "Tar": second}


def padded(matrix: csr_array, size: int) -> np.ndarray:
    wide = np.zeros((size, size))
    wide[: matrix.shape[0], : matrix.shape[0]] = matrix.toarray()
    return wide


def with_loops(matrix: np.ndarray) -> np.ndarray:
    alone = np.flatnonzero(matrix.sum(1) == 0)
    matrix[alone, alone] = 1
    return matrix
