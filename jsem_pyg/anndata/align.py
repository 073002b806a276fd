"""Which cell of one experiment is which of another, where they need not share any gene."""

import logging
from typing import Any, Literal

import numpy as np
import torch
from scipy.sparse import csr_matrix, vstack
from sklearn.decomposition import TruncatedSVD

from .._checks import (
    check_choice,
    check_nonnegative_int,
    check_positive_int,
    check_signal_range,
    check_text,
)
from ..transport import Plan, gromov_wasserstein
from .read import PCA, check_key, keep_params, open_adata, read_expression, read_rep

logger = logging.getLogger(__name__)

FEWEST_GENES = 10  # that two sides have to share before "auto" compares them
COMPONENTS = 50  # that shared genes are reduced to


def align(
    adata: Any,
    other: Any,
    *,
    use_rep: str = PCA,
    other_rep: str | None = None,
    fused: bool | Literal["auto"] = "auto",
    top: int = 10,
    key_added: str = "align",
    random_state: int = 0,
    copy: bool = False,
    **options: Any,
) -> Any:
    """Align the cells of two experiments by the geometry of each, and by the genes they share.

    :func:`~jsem_pyg.transport.gromov_wasserstein` finds a plan that sends cells to cells so that
    distances among them are kept, after each side is centred and brought to a mean squared length
    of one; it is never stored as a whole. Names of cells are not looked at. Both sides get:

    - `uns[key_added]["plan"]`: [N, K] sparse, the `top` largest entries of every row;
    - `obsm[f"X_{key_added}"]`: the projection of each cell into the other's coordinates, the mean
      of what it is sent to;
    - `obs[f"{key_added}_partner"]`: the position of its best partner, -1 without one, and
      `obs[f"{key_added}_partner_name"]`: its name in `obs_names`, "" without one;
    - `obs[f"{key_added}_confidence"]`: the probability that the partner is near the true one, the
      `confidence` of a :class:`~jsem_pyg.transport.Plan`;
    - arguments, the cost reached and whether the solver converged, in `uns[key_added]`.

    Args:
        adata: N cells, with coordinates in `obsm`.
        other: K cells, with coordinates of the same or of another kind.
        use_rep: the coordinates of `adata`.
        other_rep: the coordinates of `other`; by default the same key.
        fused: whether to compare the expression of shared genes (`X`, normalised alike) as well;
            "auto": where there are ten or more, unless a side has no names ("0", "1", ...).
        top: entries of the plan to keep for each cell.
        key_added: see above.
        random_state: a seed.
        copy: return copies of both, in place of None.
        **options: of :func:`~jsem_pyg.transport.gromov_wasserstein`, such as `epsilon`.
    """
    adata, other = open_adata(adata, copy), open_adata(other, copy, "other")
    if adata is other:
        raise ValueError(
            "Expected 'adata' and 'other' to be two objects, as both get results (got one). To fix "
            "this, pass other=adata.copy(), or copy=True."
        )
    check_key("key_added", key_added)
    check_text("use_rep", use_rep)
    check_positive_int("top", top)
    check_nonnegative_int("random_state", random_state)
    check_choice("fused", fused, (True, False, "auto"))
    other_rep = use_rep if other_rep is None else other_rep
    both = read_rep(adata, use_rep), read_rep(other, other_rep, "other_rep", "other")
    x, y = (torch.from_numpy(each.astype(np.result_type(*both))) for each in both)
    for owner, key, points in (("adata", use_rep, x), ("other", other_rep, y)):
        check_signal_range(f"{owner}.obsm[{key!r}]", points)
    genes = _shared_genes(adata, other) if fused is not False else []
    if fused == "auto" and len(genes) >= FEWEST_GENES and (_unnamed(adata) or _unnamed(other)):
        logger.warning(
            "'var_names' only count the columns, '0', '1', ...: they are not compared as names of "
            "genes. If they mean the same genes, pass fused=True."
        )
        genes = []
    if fused is True and not genes:
        raise ValueError("Expected 'adata' and 'other' to share genes, for fused=True (got none).")
    if fused is True or len(genes) >= FEWEST_GENES:
        logger.info("compares %d shared genes as well", len(genes))
        options["features"] = _features(adata, other, genes, random_state, x.dtype)
    else:
        genes = []
    options.setdefault("progress", False)
    plan = gromov_wasserstein(_unit(x), _unit(y), seed=random_state, **options)
    options.pop("progress")
    words = {name: each for name, each in options.items() if isinstance(each, str | int | float)}
    params = {"use_rep": use_rep, "other_rep": other_rep, "random_state": random_state, **words}
    names = adata.obs_names.to_numpy(), other.obs_names.to_numpy()
    sides = (adata, plan, y, names[1]), (other, plan.transposed(), x, names[0])
    for side, own, points, theirs in sides:
        side.obsm[f"X_{key_added}"] = own.apply(points).numpy()
        partner = side.obs[f"{key_added}_partner"] = own.argmax().numpy()
        side.obs[f"{key_added}_partner_name"] = np.where(partner < 0, "", theirs[partner])
        side.obs[f"{key_added}_confidence"] = own.confidence.numpy()
        more = {"cost": plan.cost, "converged": plan.converged, "shared_genes": len(genes)}
        keep_params(side, key_added, params, plan=_sparse(own, top), **more)
    return (adata, other) if copy else None


def _shared_genes(adata: Any, other: Any) -> list[str]:
    """List the names of genes that both sides have."""
    for name, side in {"adata": adata, "other": other}.items():
        if not side.var_names.is_unique:
            raise ValueError(
                f"Expected '{name}.var_names' to be unique, to compare genes (got "
                f"{int(side.var_names.duplicated().sum())} repeated). To fix this, run "
                f"{name}.var_names_make_unique(), or pass fused=False."
            )
    theirs = set(other.var_names)
    return [gene for gene in adata.var_names if gene in theirs]


def _unnamed(side: Any) -> bool:
    """Return True if genes have the names that AnnData gives by default, their positions."""
    return list(side.var_names) == [str(place) for place in range(side.n_vars)]


def _features(
    adata: Any, other: Any, genes: list[str], seed: int, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Put the expression of the shared genes in one space: centred, [N, d] and [K, d]."""
    sides = []
    for side in (adata, other):
        x = read_expression(side)[:, side.var_names.get_indexer(genes)]
        sides.append(csr_matrix(x, dtype=np.float32))
    stacked = vstack(sides).tocsr()
    if len(genes) > COMPONENTS:
        reducer = TruncatedSVD(COMPONENTS, random_state=seed).set_output(transform="default")
        reduced = reducer.fit_transform(stacked)
    else:
        reduced = stacked.toarray()
    first, second = reduced[: adata.n_obs], reduced[adata.n_obs :]
    one, two = (_unit(torch.from_numpy(each).to(dtype)) for each in (first, second))
    return one, two


def _unit(x: torch.Tensor) -> torch.Tensor:
    """Centre points and bring them to a mean squared length of one, to compare measurements."""
    x = x - x.mean(0)
    length = x.square().sum(1).mean().sqrt()
    return x / length if length > 0 else x


def _sparse(plan: Plan, top: int) -> csr_matrix:
    kept = plan.topk(top)
    row, col = kept.indices().numpy()
    return csr_matrix((kept.values().numpy(), (row, col)), shape=plan.shape)
