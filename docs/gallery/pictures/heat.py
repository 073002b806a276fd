"""Draw heat.png: heat from one node, over all edges alike and over edges that learned to conduct.

python docs/gallery/pictures/heat.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
from matplotlib.collections import LineCollection
from torch_geometric.data import Data

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.nn import DiffusionClassifier
from jsem_pyg.training import fit
from jsem_pyg.transforms import FaissKNNGraph

TIME = 80.0


def two_clusters() -> Data:
    """Two clouds of points that touch, and their neighbour graph."""
    draw = torch.Generator().manual_seed(3)
    pos = torch.randn(160, 2, generator=draw) * torch.tensor([1.15, 0.75])
    pos[80:, 0] += 4.4
    return FaissKNNGraph(k=6, metric="l2")(Data(x=pos, pos=pos))


def main() -> None:
    """Train the conductances without labels, and draw three panels."""
    data = two_clusters()
    model = DiffusionClassifier(2, num_classes=2)
    fit(model, data, seed=0, progress=False)
    conductance = model.conductances(data.x, data.edge_index, data.edge_weight).detach()
    hot = torch.zeros(160, 1)
    hot[(data.pos - torch.tensor([0.9, 0.0])).norm(dim=1).argmin()] = 1.0
    alike = heat_diffusion(hot, data.edge_index, data.edge_weight, TIME)
    learned = heat_diffusion(hot, data.edge_index, data.edge_weight * conductance, TIME)

    figure, axes = plt.subplots(1, 3, figsize=(12, 3.1), layout="constrained")
    titles = ("one hot node", "heat, every edge alike", "heat, learned conductances")
    widths = (None, None, conductance)
    lines = data.pos[data.edge_index.T].numpy()
    for axis, title, heat, width in zip(axes, titles, (hot, alike, learned), widths, strict=True):
        wide = 0.7 if width is None else 1.2 * width.numpy()
        axis.add_collection(LineCollection(lines, colors="0.6", linewidths=wide, zorder=0))
        shown = (heat / heat.max())[:, 0]
        axis.scatter(*data.pos.T, c=shown, cmap="inferno_r", vmin=-0.1, vmax=1.1, s=26)
        axis.set(title=title, xticks=[], yticks=[])
        axis.spines[:].set_visible(False)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=100)


if __name__ == "__main__":
    main()
