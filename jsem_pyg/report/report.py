"""Write a map of diffused points as one HTML file."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._checks import check_bool, check_choice, check_nonnegative_int, check_text
from .._files import as_path, check_writable, write_whole
from ..training.distinctness import say_distinctness
from .content import (
    FULL,
    SIDE,
    edge_arrays,
    for_scripts,
    read_counts,
    read_groupings,
    read_images,
    read_texts,
    to_grid,
)
from .findings import read_findings
from .layout import LAYOUTS, choose_layout, choose_times, place_points
from .page import plotly_script, render, score_table, settings_table

if TYPE_CHECKING:
    import pandas as pd


def report(
    data: Any,
    result: Any,
    path: str | os.PathLike[str],
    *,
    text: Sequence[str] | None = None,
    counts: Sequence[int] | None = None,
    cluster_names: Sequence[str] | Mapping[int, str] | None = None,
    label_names: Sequence[str] | Mapping[int, str] | None = None,
    level_names: Sequence[Sequence[str]] | None = None,
    images: Any = None,
    scores: "pd.DataFrame | Mapping[str, Any] | None" = None,
    settings: Mapping[str, Any] | None = None,
    title: str = "Map of diffused points",
    layout: str = "auto",
    random_state: int = 0,
    progress: bool = True,
) -> Path:
    """Write a page that shows what was found on a graph: one HTML file, which needs no network.

    The points lie on a map, coloured by cluster or label, with their texts and edges, a search, a
    lasso, and sliders for the time and for the levels of a clusterer; beside it are clusters,
    scores, settings and versions. Distances on the map mean little, neighbourhoods more.

    Args:
        data: `x` [N, D], `edge_index` [2, E] with both directions of every edge, `edge_weight` [E]
            if there are weights, `y` [N] (integers) if there are labels to compare with. For a
            `DiffusionClusterer`, which has made its own graph, `x` is enough, or the array [N, D]
            that it was fitted to.
        result: what :func:`~jsem_pyg.training.fit` returns for a
            :class:`~jsem_pyg.nn.DiffusionClassifier`, a fitted
            :class:`~jsem_pyg.estimators.DiffusionClusterer`, or :class:`Findings` of your own.
        path: the file to write, an existing one is replaced; or a folder, for `map.html` in it.
        text: N texts, what is read at each point and searched; None: its number.
        counts: N integers >= 1, how many rows each point stands for: larger dots stand for more.
        cluster_names: a list with the name of cluster 0, 1, ..., or a mapping from clusters to
            names; None: those of a clusterer, else "cluster 0" and so on.
        label_names: the same for the labels `y`.
        level_names: for each level but the first of a `DiffusionClusterer`, names of its clusters.
        images: [N, H, W] numbers, a small picture of each point, shown where one points at it.
        scores: a `pandas.DataFrame`; or a mapping, from scores to numbers, or from methods to such
            mappings. A number may be a mean and a standard deviation.
        settings: a mapping, what is needed to make this again. Versions are added.
        title: of the page.
        layout: "umap" (the last time first, each other beginning with it), "pca" (principal axes
            of the last time, for all times: cheap and linear), or "auto": t-SNE for up to 1,000
            points, UMAP for more. Fewer than 30 points have "pca" always.
        random_state: of whatever is random in the layout.
        progress: show a bar while UMAP works, where there is a terminal to show it in.

    Raises:
        ImportError: if a package of the extra ``report`` is missing.
        OSError: if the file cannot be written; it is then as it was.

    Sources: McInnes, Healy and Melville, "UMAP", 2018, and van der Maaten and Hinton, "Visualizing
    data using t-SNE", 2008, for the layout; Petroff, "Accessible color sequences for data
    visualization", 2021, for the colours.

    Example:
        >>> import tempfile
        >>> import torch
        >>> from torch_geometric.data import Data
        >>> from jsem_pyg.report import Findings
        >>> from jsem_pyg.transforms import FaissKNNGraph
        >>> corner = torch.arange(20) % 2
        >>> noise = torch.randn(20, 2, generator=torch.Generator().manual_seed(0))
        >>> data = FaissKNNGraph(5)(Data(x=torch.eye(2)[corner] + 0.1 * noise))
        >>> found = Findings(labels=corner, conductances=torch.ones(data.num_edges), t=2.0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     page = report(data, found, f"{folder}/map.html", layout="pca")
        ...     page.name, "plotly" in page.read_text(encoding="utf-8")
        ('map.html', True)
    """
    target = as_path("path", path)
    if target.is_dir() or not target.suffix:
        target = target / "map.html"
    check_text("title", title)
    check_choice("layout", layout, LAYOUTS)
    check_nonnegative_int("random_state", random_state)
    check_bool("progress", progress)
    graph, found = read_findings(data, result)
    if cluster_names is None:
        cluster_names = getattr(result, "cluster_names_", None)
    num_points = len(graph.x)
    groupings = read_groupings(graph, found, cluster_names, label_names, level_names)
    texts = None if text is None else read_texts("text", text, num_points)
    pictures, sizes = read_images(images, num_points), read_counts(counts, num_points)
    tables = {"scores": score_table(scores), "settings": settings_table(settings)}
    times = choose_times(float(found.t), num_points)
    layout = choose_layout(layout, num_points)
    plotly_script()  # an ImportError before the work, not after it
    check_writable("path", target)

    places = place_points(graph, found, times, layout, random_state, progress)
    arrays = {
        "places": to_grid(places),
        **edge_arrays(graph.edge_index, found.conductances, num_points),
        **{f"group_{i}": each.of.astype(np.uint32) for i, each in enumerate(groupings)},
        **({} if pictures is None else {"images": pictures}),
        **({} if sizes is None else {"counts": sizes}),
    }
    share = found.distinctness
    content = {
        "points": num_points,
        "texts": texts,
        "times": times,
        "side": SIDE,
        "full": FULL,
        "groupings": list(map(for_scripts, groupings)),
        "picture": None if pictures is None else list(pictures.shape[1:]),
    }
    page = render(
        content,
        arrays,
        title=title,
        points=num_points,
        edges=len(arrays["edges_end"]),
        groupings=groupings,
        times=times,
        sized=sizes is not None,
        distinctness=None if share is None else say_distinctness(share, len(groupings[0].names)),
        layout={"tsne": "t-SNE"}.get(layout, layout.upper()),
        **tables,
    )
    encoded = page.encode("utf-8", "backslashreplace")  # halves of characters
    write_whole(target, encoded)
    return target
