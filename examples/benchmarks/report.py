"""How large is the page of a report, how long does it take to write, and to appear?

Points around 20 corners with a text each, their neighbour graph and clusters. For each number of
points: seconds to lay them out and to write the file, its size, and, in headless Chromium without
a GPU, seconds from opening the file to the first paint (of what stands beside the map) and to the
map, and to draw the map anew once it is there (a change of colours).

    python examples/benchmarks/report.py                               # 10,000 and 100,000 points
    python examples/benchmarks/report.py --num-points 10000 --layout pca
"""

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import pandas as pd
import torch
from reporting import machine, parser_of, write_table
from torch_geometric.data import Data

from jsem_pyg.report import Findings, report
from jsem_pyg.transforms import FaissKNNGraph

CORNERS = 20
WORDS = ["heat", "flows", "along", "edges", "that", "conduct", "stops", "where", "classes", "meet"]
REDRAW = """
const done = arguments[0], select = document.getElementById("colour"), begin = performance.now();
select.value = "1";
select.dispatchEvent(new Event("change"));
requestAnimationFrame(() => setTimeout(() => done(performance.now() - begin)));
"""


def parse_args(argv: list[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--num-points", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--words", type=int, default=30, help="of each text")
    parser.add_argument("--layout", nargs="+", default=["umap", "pca"])
    return parser.parse_args(argv)


def make_points(num_points: int, channels: int) -> tuple[Data, Findings]:
    """Points around corners, whose edges conduct well unless they lead to another corner."""
    draw = torch.Generator().manual_seed(0)
    y = torch.randint(CORNERS, (num_points,), generator=draw)
    corner = torch.randn(CORNERS, channels, generator=draw)
    x = corner[y] + 0.9 * torch.randn(num_points, channels, generator=draw)
    data = FaissKNNGraph(15, progress=False)(Data(x=x, y=y))
    source, target = data.edge_index
    conductance = torch.where(y[source] == y[target], 0.95, 0.2)
    return data, Findings(labels=y, conductances=conductance, t=5.0)


def make_texts(num_points: int, words: int) -> list[str]:
    draw = torch.Generator().manual_seed(0)
    index = torch.randint(len(WORDS), (num_points, words), generator=draw).tolist()
    return [" ".join(WORDS[i] for i in row) for row in index]


def appearance(path: Path) -> dict[str, float]:
    """Seconds until the page appears; nothing where there is no browser."""
    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in programs:
        print("No Chromium here: apt-get install chromium chromium-driver")
        return {}
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = programs[0]
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.add_argument("--enable-unsafe-swiftshader")
    with webdriver.Chrome(options, webdriver.ChromeService(programs[1])) as browser:
        browser.set_page_load_timeout(300)
        browser.set_script_timeout(300)
        browser.get(path.as_uri())
        while not browser.execute_script("return performance.getEntriesByName('map drawn').length"):
            time.sleep(0.1)
        entry = "return performance.getEntriesByName(arguments[0])[0]?.startTime ?? NaN"
        marks = {"first paint, s": "first-contentful-paint", "map, s": "map drawn"}
        found = {name: browser.execute_script(entry, mark) / 1000 for name, mark in marks.items()}
        return found | {"drawn anew, s": browser.execute_async_script(REDRAW) / 1000}


def measure(num_points: int, layout: str, args: argparse.Namespace, folder: Path) -> dict:
    data, found = make_points(num_points, args.channels)
    text = make_texts(num_points, args.words)
    path, begin = folder / "map.html", time.perf_counter()
    report(data, found, path, text=text, layout=layout)
    seconds = time.perf_counter() - begin
    sizes = {"points": num_points, "edges": data.num_edges // 2, "layout": layout}
    written = {"written in, s": seconds, "MB": path.stat().st_size / 1e6}
    return sizes | written | appearance(path)


def main(argv: list[str] | None = None) -> pd.DataFrame:
    args = parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            measure(num_points, layout, args, Path(folder))
            for num_points in args.num_points
            for layout in args.layout
        ]
    table = pd.DataFrame(rows)
    texts = f"Texts of {args.words} words, {args.channels} channels, five diffusion times."
    write_table(table, args.output, "report", [machine(), texts])
    return table


if __name__ == "__main__":
    main()
