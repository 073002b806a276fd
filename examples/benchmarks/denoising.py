"""Denoise a picture by heat that stops at its edges, learned from the noisy picture alone.

Pixels are nodes, and each is joined to its neighbours on the grid and to those around which the
picture looks alike (`patch_graph.py`); `self_denoiser.py` says how to learn without anything clean.

    python examples/benchmarks/denoising.py  # china.jpg and flower.jpg
    python examples/benchmarks/denoising.py --picture mine.png  # -> denoised.png
    python examples/benchmarks/denoising.py --quick  # a small drawn picture, seconds

Beside it stand isotropic heat on the same graph, for the time that is best by the clean picture,
and total variation, non-local means and, where it is installed, BM3D, the first two with parameters
that are best by the clean picture. Of the learned ones, `open` closes no edge. Writes a row a run
to denoising.csv in --output; what it has already is not run again. What came out, also of other
ways to learn, is in `examples/results/denoising.md`.
"""

import argparse
import importlib.util
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import numpy as np
import pandas as pd
import torch
from helpers import self_denoiser
from helpers.self_denoiser import (
    as_picture,
    denoise_picture,
    learn_picture,
    picture_graph,
    pixels,
)
from reporting import Rows, markdown, parser_of, timed
from skimage import io, restoration, transform
from skimage.metrics import peak_signal_noise_ratio, structural_similarity
from sklearn.datasets import load_sample_image
from torch import Tensor
from torch_geometric import seed_everything

from jsem_pyg.diffusion import heat_diffusion

HEAT_TIMES = [0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 8.0]
# Sizes of patches, how far they may be apart, widths as shares of the noise.
NLM_SETTINGS = list(itertools.product((3, 5, 7), (6, 10), (0.6, 0.8, 1.0)))
PICTURES = ["china", "flower"]
DRAWN = ["disc", "large disc"]
RUN = ["picture", "kind", "noise", "seed", "method"]  # what a row is of


class Task:
    """A clean picture, what noise made of it, and scores of what claims to be the clean one."""

    def __init__(self, picture: str, kind: str, noise: float, seed: int) -> None:
        self.clean = load(picture, kind)
        self.noise, self.seed = noise, seed
        seed_everything(seed)
        self.noisy = self.clean + noise * torch.randn_like(self.clean)

    def psnr(self, picture: Tensor) -> float:
        shown = picture.clamp(0, 1).numpy()
        return float(peak_signal_noise_ratio(self.clean.numpy(), shown, data_range=1))

    def ssim(self, picture: Tensor) -> float:
        shown = picture.clamp(0, 1).numpy()
        clean = self.clean.numpy()
        return float(structural_similarity(clean, shown, channel_axis=0, data_range=1))

    def best(self, pictures: Iterator[tuple[str, Tensor]]) -> tuple[Tensor, str]:
        """The picture that is nearest to the clean one: what no method of its own can know."""
        label, picture = max(pictures, key=lambda each: self.psnr(each[1]))
        return picture, label

    # Each method returns a picture, and what was chosen for it with the clean one.
    def run_noisy(self) -> tuple[Tensor, str]:
        return self.noisy, ""

    def run_heat(self) -> tuple[Tensor, str]:
        graph, times = picture_graph(self.noisy, self.noise).structure, torch.tensor(HEAT_TIMES)
        heat = heat_diffusion(pixels(self.noisy), graph, t=times, normalization="rw", tol=1e-3)
        pictures = (as_picture(each, self.noisy) for each in heat)
        return self.best((f"t={t}", p) for t, p in zip(HEAT_TIMES, pictures, strict=True))

    def run_tv(self) -> tuple[Tensor, str]:
        smooth = restoration.denoise_tv_chambolle
        weights = [round(ratio * self.noise, 4) for ratio in (0.3, 0.5, 0.75, 1.0, 1.25, 1.5)]
        return self.best(
            (f"weight={w}", torch.from_numpy(smooth(self.noisy.numpy(), w, channel_axis=0)))
            for w in weights
        )

    def run_nlm(self) -> tuple[Tensor, str]:
        is_grey = len(self.noisy) == 1  # scikit-image drops the channel of such pictures
        options = {"sigma": self.noise, "fast_mode": False, "channel_axis": None if is_grey else 0}
        smooth, noisy = restoration.denoise_nl_means, self.noisy.numpy()
        noisy = noisy[0] if is_grey else noisy
        return self.best(
            (
                f"patch={patch} distance={distance} h={ratio}s",
                torch.from_numpy(
                    smooth(noisy, patch, distance, ratio * self.noise, **options)
                ).view_as(self.noisy),
            )
            for patch, distance, ratio in NLM_SETTINGS
        )

    def run_bm3d(self) -> tuple[Tensor, str]:
        import bm3d

        image = self.noisy.permute(1, 2, 0).double().numpy()
        is_grey = len(self.noisy) == 1
        out = bm3d.bm3d(image[..., 0], self.noise) if is_grey else bm3d.bm3d_rgb(image, self.noise)
        return torch.from_numpy(out).float().reshape(image.shape).permute(2, 0, 1), ""

    def run_learned(self, is_open: bool = False) -> tuple[Tensor, str]:
        model = learn_picture(self.noisy, self.noise, is_open)
        return denoise_picture(model, self.noisy, self.noise), ""

    def run_open(self) -> tuple[Tensor, str]:
        return self.run_learned(is_open=True)

    def run(self, method: str) -> dict[str, float | str]:
        """A row of the table."""
        seed_everything(1000 + self.seed)  # not the noise of the picture once more
        (picture, setting), seconds = timed(getattr(self, f"run_{method}"))
        scores = {"psnr": self.psnr(picture), "ssim": self.ssim(picture)}
        return scores | {"seconds": seconds, "setting": setting}


METHODS = [name.removeprefix("run_") for name in vars(Task) if name.startswith("run_")]


def estimate_noise(noisy: Tensor) -> float:
    """The standard deviation of the noise, by the wavelets of scikit-image."""
    return float(restoration.estimate_sigma(noisy.numpy(), channel_axis=0, average_sigmas=True))


def load(name: str, kind: str) -> Tensor:
    """[C, H, W] in [0, 1]: one of scikit-learn's pictures, made smaller, or a drawn one."""
    if name in DRAWN:
        rows, columns = np.mgrid[:48, :64] / 48
        disc = (rows - 0.5) ** 2 + (columns - 0.6) ** 2 < 0.1 + 0.1 * DRAWN.index(name)
        waves = 0.5 + 0.3 * np.sin(24 * columns)
        image = np.stack([np.where(disc, 0.8, 0.3 * rows), np.where(disc, waves, 0.4), waves], -1)
    else:
        image = load_sample_image(f"{name}.jpg") / 255
        image = transform.resize(image, (192, 256), anti_aliasing=True)
    if kind == "grey":
        image = image @ np.array([[0.299], [0.587], [0.114]])
    return torch.from_numpy(image).float().permute(2, 0, 1).contiguous()


def as_markdown(runs: pd.DataFrame) -> str:
    """PSNR and SSIM, means over seeds, in columns of picture, kind and noise."""
    groups = runs.groupby(["method", *RUN[:3]], sort=False)
    cells = groups.apply(
        lambda part: f"{part['psnr'].mean():.2f} / {part['ssim'].mean():.3f} ({len(part)})",
        include_groups=False,
    )
    table = cells.unstack(RUN[:3]).fillna("")
    table.columns = [" ".join(map(str, each)) for each in table.columns]
    order = dict.fromkeys([*METHODS, *table.index])  # rows of methods that went come last
    table = table.reindex([method for method in order if method in table.index])
    return markdown(table.rename_axis("dB / SSIM (seeds)").reset_index())


def denoise_file(path: Path, noise: float | None, output: Path) -> None:
    """Denoise a picture of one's own."""
    image = np.atleast_3d(io.imread(path))
    image = image[..., : 3 if image.shape[-1] > 2 else 1]  # without transparency
    scale = 255 if image.dtype == np.uint8 else image.max()
    noisy = torch.from_numpy(image / scale).float().permute(2, 0, 1).contiguous()
    noise = estimate_noise(noisy) if noise is None else noise
    print(f"noise: {noise:.3f} of the range of values")
    out = denoise_picture(learn_picture(noisy, noise), noisy, noise).clamp(0, 1)
    output.mkdir(parents=True, exist_ok=True)
    values = (255 * out).round().byte().permute(1, 2, 0).numpy()
    io.imsave(output / "denoised.png", values.squeeze(), check_contrast=False)
    print(f"written: {output / 'denoised.png'}")


def parse_args(argv: list[str] | None) -> argparse.Namespace:
    parser = parser_of(__doc__, "output/denoising")
    parser.add_argument("--picture", type=Path, help="a noisy picture of your own")
    parser.add_argument("--noise", type=float, nargs="+", help="standard deviations; 0.1")
    parser.add_argument("--kind", choices=["colour", "grey"], default="colour")
    parser.add_argument("--seeds", type=int, default=3, help="seeds 0 .. n - 1")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--quick", action="store_true", help="two small drawn pictures, four steps")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> pd.DataFrame | None:
    args = parse_args(argv)
    if args.quick:
        global PICTURES
        PICTURES, args.seeds = DRAWN, 1
        self_denoiser.STEPS, self_denoiser.TILES = 4, 2
    if args.picture is not None:
        return denoise_file(args.picture, args.noise[0] if args.noise else None, args.output)
    methods = args.methods
    if importlib.util.find_spec("bm3d") is None:
        methods = [method for method in methods if method != "bm3d"]
    settings = itertools.product(PICTURES, [args.kind], args.noise or [0.1], range(args.seeds))
    rows = Rows(args.output / "denoising.csv", *RUN)
    for *key, method in ((*each, method) for each in settings for method in methods):
        if not rows.has(*key, method):
            row = Task(*key).run(method)
            rows.add(dict(zip(RUN, (*key, method), strict=True)) | row)
    runs = pd.read_csv(rows.path)
    (args.output / "denoising_tables.md").write_text(as_markdown(runs))
    print(as_markdown(runs))
    return runs


if __name__ == "__main__":
    main()
