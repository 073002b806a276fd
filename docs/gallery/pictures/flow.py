"""Draw flow.png: the way of a signal through a layer, with the files on it.

python docs/gallery/pictures/flow.py
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.patches import FancyBboxPatch

WIDTH, HEIGHT = 1.9, 0.62
# name: (x, y, what it is, where it is made)
BOXES = {
    "edges": (0.0, 3, "edge_index, edge_weight", "given"),
    "features": (0.0, 2, "edge_attr", "given"),
    "time": (0.0, 1, "t, tol", "given"),
    "signal": (0.0, 0, "x", "given"),
    "structure": (2.5, 3, "GraphStructure", "graph/reader.py"),
    "conductance": (2.5, 2, "conductance h", "nn/conductance.py"),
    "operator": (5.0, 2.5, "HeatOperator: S, rate", "operators/laplacian.py"),
    "coefficients": (5.0, 1, "coefficients", "diffusion/times.py"),
    "series": (7.5, 1, "series", "kernels/chebyshev/"),
    "result": (10.0, 1, "exp(-tL) x", "layer: nn/"),
}
ARROWS = [
    ("edges", "structure"),
    ("features", "conductance"),
    ("structure", "operator"),
    ("conductance", "operator"),
    ("time", "coefficients"),
    ("operator", "series"),
    ("coefficients", "series"),
    ("signal", "series"),
    ("series", "result"),
]


def main() -> None:
    """Boxes for what is made, arrows for what it is made of."""
    figure, axis = plt.subplots(figsize=(12, 3.6), layout="constrained")
    for x, y, text, where in BOXES.values():
        colors = ("white", "0.6") if where == "given" else ("#fde6c8", "#c8741a")
        corner = (x - WIDTH / 2, y - HEIGHT / 2)
        style = "round,pad=0,rounding_size=0.08"
        face, edge = colors
        axis.add_patch(
            FancyBboxPatch(corner, WIDTH, HEIGHT, boxstyle=style, facecolor=face, edgecolor=edge)
        )
        axis.text(x, y + 0.1, text, ha="center", va="center", fontsize=10)
        axis.text(x, y - 0.16, where, ha="center", va="center", fontsize=7.5, color="0.35")
    for start, end in ARROWS:
        (x0, y0), (x1, y1) = BOXES[start][:2], BOXES[end][:2]
        axis.annotate(
            "",
            xytext=(x0 + WIDTH / 2, y0),
            xy=(x1 - WIDTH / 2, y1 - (0.2 if start == "signal" else 0)),
            arrowprops={
                "arrowstyle": "->",
                "color": "0.4",
                "connectionstyle": "angle,angleA=0,angleB=55" if start == "signal" else "arc3",
            },
        )
    axis.set(xlim=(-1.1, 11.1), ylim=(-0.4, 3.45))
    axis.axis("off")
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)


if __name__ == "__main__":
    main()
