"""Photograph the pages of the command (wine.png) and of a report with pictures (digits.png).

python docs/gallery/pictures/pages.py      # with Chromium, as tests/report/test_browser.py
"""

import sys
import tempfile
from pathlib import Path

import torch
from click.testing import CliRunner
from sklearn.datasets import load_digits, load_wine
from torch_geometric.data import Data

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2] / "tests"))

from browser import Hands, chromium  # noqa: E402

from jsem_pyg.command import main as command  # noqa: E402
from jsem_pyg.estimators import DiffusionClusterer  # noqa: E402
from jsem_pyg.report import report  # noqa: E402


def wine(folder: Path) -> Path:
    """The map that the guide's first command writes."""
    load_wine(as_frame=True).frame.to_csv(folder / "wine.csv", index=False)
    words = ["map", str(folder / "wine.csv"), "--labels", "target", "-o", str(folder / "wine-map")]
    sys.argv = ["jsem-pyg", *words]
    CliRunner().invoke(command, words, prog_name="jsem-pyg", catch_exceptions=False)
    return folder / "wine-map" / "map.html"


def digits(folder: Path) -> Path:
    """Handwritten digits, each shown where one points at it."""
    bunch = load_digits()
    clusterer = DiffusionClusterer(10, random_state=0).fit(bunch.data)
    data = Data(x=torch.from_numpy(bunch.data).float(), y=torch.from_numpy(bunch.target))
    path = folder / "digits.html"
    return report(data, clusterer, path, images=bunch.images, title="1,797 digits")


def photograph(path: Path, target: Path, hover: int | None) -> None:
    """The page as it comes, 1200 wide, with the mouse over a point of cluster 0 or nowhere."""
    driver = chromium(1200, 850)
    try:
        hands = Hands(driver, path)
        if hover is not None:
            hands.point_at(0, hover)
            hands.wait(lambda: hands.shows("#tip"))
        driver.save_screenshot(str(target))
        complaints = hands.complaints()
        assert complaints == [], complaints
    finally:
        driver.quit()


def main() -> None:
    """Make both pages, and their pictures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        photograph(wine(folder), HERE / "wine.png", None)
        photograph(digits(folder), HERE / "digits.png", 25)


if __name__ == "__main__":
    main()
