"""Points with a report of theirs, and what stands in the file."""

import base64
import gzip
import json
import re
from html.parser import HTMLParser

import numpy as np
import torch
from torch_geometric.data import Data

from jsem_pyg.report import Findings
from jsem_pyg.transforms import FaissKNNGraph

# Texts that would be HTML, scripts or nonsense, were they not shown as they are.
HOSTILE = [
    "</script><script>document.title = 'broken'</script>",
    "<img src=x onerror=\"document.title = 'broken'\"> & &amp; &lt;b&gt;",
    "quotes \" ' ` and \\ and \\u0041 and {{ title }} and {% raw %} and ${1}",
    "two\nlines\tand a tab",
    "ελληνικά, русский, 中文, हिन्दी, 👩‍👩‍👧, e\u0301",
    "עברית before Latin",
    "<b>bold</b><br><a href='https://example.com'>a link</a> $x^2$",
    "]]> <!-- --> \u2028 \u2029 \x00 \x7f",
    "",
    "   ",
]


def blobs(each=20, corners=3, seed=0):
    """Points around corners, with their neighbour graph, clusters and conductances."""
    y = torch.arange(corners).repeat_interleave(each)
    noise = torch.randn(len(y), corners + 2, generator=torch.Generator().manual_seed(seed))
    data = FaissKNNGraph(6)(Data(x=torch.eye(corners, corners + 2)[y] + 0.2 * noise, y=y))
    source, target = data.edge_index
    conductances = torch.where(y[source] == y[target], 0.9, 0.1)
    conductances -= 0.05 * ((source + target) % 7 / 7)
    return data, Findings(labels=y, conductances=conductances, t=4.0)


def texts(count):
    return [HOSTILE[i] if i < len(HOSTILE) else f"text number {i}" for i in range(count)]


class Page(HTMLParser):
    """The tags, the attributes and the texts of a page."""

    def __init__(self, path):
        super().__init__()
        self.source = path.read_text(encoding="utf-8")
        self.tags, self.words, self._inside = [], [], []
        self.feed(self.source)
        self.block = re.search(r'<script id="block"[^>]*>([^<]*)</script>', self.source)[1]

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self._inside.append(tag)

    def handle_endtag(self, tag):
        while self._inside and self._inside.pop() != tag:
            pass

    def handle_data(self, data):
        if not {"script", "style"} & set(self._inside):
            self.words.append(data)

    def count(self, tag):
        return sum(each == tag for each, _ in self.tags)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def content(self):
        """What the scripts read, and its arrays."""
        block = gzip.decompress(base64.b64decode(self.block))
        begin = 4 + int.from_bytes(block[:4], "little")
        content = json.loads(block[4:begin])
        arrays = {}
        for name, place in content.pop("arrays").items():
            kind, count = np.dtype(place["type"]), int(np.prod(place["shape"]))
            array = np.frombuffer(block, kind, count, begin + place["start"])
            arrays[name] = array.reshape(place["shape"])
        return content, arrays
