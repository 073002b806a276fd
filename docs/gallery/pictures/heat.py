"""Draw heat.png: heat from one node, over all edges alike and over edges that learned to conduct.

python docs/gallery/pictures/heat.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from matplotlib.collections import LineCollection
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import coalesce, to_undirected

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.nn import AnisotropicDiffusion
from jsem_pyg.transforms import FaissKNNGraph

TIME, HALF, WRONG = 12.0, 80, 70


def two_clusters() -> Data:
    """Join points of two clouds to their neighbours, and at random by edges of a second kind."""
    draw = torch.Generator().manual_seed(3)
    pos = torch.randn(2 * HALF, 2, generator=draw) * torch.tensor([1.15, 0.75])
    pos[HALF:, 0] += 6.0
    near = FaissKNNGraph(k=6, metric="l2")(Data(x=pos)).edge_index
    wrong = torch.randint(HALF, (2, WRONG), generator=draw) + torch.tensor([[0], [HALF]])
    wrong = to_undirected(wrong)
    kind = F.one_hot(torch.tensor([0, 1]), 2).float()
    kind = kind.repeat_interleave(torch.tensor([near.size(1), wrong.size(1)]), dim=0)
    edge_index, edge_attr = coalesce(torch.cat([near, wrong], 1), kind, reduce="max")
    return Data(pos=pos, edge_index=edge_index, edge_attr=edge_attr)


def learned_conductance(data: Data) -> Tensor:
    """Let ten labelled nodes of each cloud, five and five in turn, teach which kind conducts."""
    draw = torch.Generator().manual_seed(0)
    label = F.one_hot((torch.arange(2 * HALF) >= HALF).long(), 2).float()
    layer = AnisotropicDiffusion(edge_dim=2, t=5.0)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.05)
    node = torch.cat([torch.randperm(HALF, generator=draw)[:10] + at for at in (0, HALF)])
    for step in range(200):
        shown, asked = node[step % 2 :: 2], node[1 - step % 2 :: 2]
        known = torch.zeros(2 * HALF, 2).index_copy(0, shown, label[shown])
        heat = layer(known, data.edge_index, edge_attr=data.edge_attr)[asked]
        share = (heat + 1e-6) / (heat + 1e-6).sum(1, keepdim=True)
        optimizer.zero_grad()
        (-(label[asked] * share.log()).sum(1).mean()).backward()
        optimizer.step()
    return layer.conductance(data.edge_attr).detach()


def main() -> None:
    """Draw the graph, and heat on it with equal and with learned conductances."""
    data = two_clusters()
    conductance = learned_conductance(data)
    hot = torch.zeros(2 * HALF, 1)
    hot[data.pos[:HALF].norm(dim=1).argmin()] = 1.0
    alike = heat_diffusion(hot, data.edge_index, None, TIME)
    learned = heat_diffusion(hot, data.edge_index, conductance, TIME)

    figure, axes = plt.subplots(1, 3, figsize=(12.5, 3.1), layout="constrained")
    titles = (
        "one hot node, edges of two kinds",
        "heat, every edge alike",
        "heat, learned conductances",
    )
    alike_width = torch.ones(len(conductance))
    widths = alike_width, alike_width, conductance / conductance.max()
    lines = data.pos[data.edge_index.T].numpy()
    colors = [("#66707f", "#2c86b5")[kind] for kind in data.edge_attr.argmax(1).tolist()]
    for axis, title, heat, width in zip(axes, titles, (hot, alike, learned), widths, strict=True):
        edges = LineCollection(lines, colors=colors, linewidths=0.7 * width.numpy(), zorder=1)
        axis.add_collection(edges)
        spread = len(heat) * heat[:, 0]
        look = {"cmap": "inferno", "vmin": 0, "vmax": 3, "edgecolors": "0.6", "linewidths": 0.3}
        dots = axis.scatter(*data.pos.T, c=spread, s=26, zorder=2, **look)
        axis.set(title=title, xticks=[], yticks=[], facecolor="#15171c")
        axis.spines[:].set_visible(False)
    bar = figure.colorbar(dots, ax=axes, pad=0.01, extend="max")
    bar.set_label("heat, 1 = evenly spread")
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=100)


if __name__ == "__main__":
    main()
