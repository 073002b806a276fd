"""What is killed: small runs and builds, each with a folder to keep its files in and a result."""

import importlib
import random
from pathlib import Path

import numpy as np
import torch
from command.command_cases import FakeEncoder, vectors
from torch import nn
from training.training_cases import SmoothingStub, two_clusters

from jsem_pyg._tensor_file import load_tree, save_tree
from jsem_pyg.command import main
from jsem_pyg.command.folder import MapFolder
from jsem_pyg.estimators import DiffusionClusterer
from jsem_pyg.nn import AnisotropicDiffusion, DiffusionClassifier
from jsem_pyg.partition import diffuse_file
from jsem_pyg.training import fit

EPOCHS = 15


class Normed(SmoothingStub):
    """With state of all kinds: weights, running means, a counter, dropout."""

    def __init__(self):
        super().__init__(dropout=0.3)
        self.norm = nn.BatchNorm1d(6)

    def forward(self, *args, **kwargs):
        return self.norm(super().forward(*args, **kwargs))


class TripletRun:
    """Training by triplets, which is resumed; nobody may lose an epoch that was written."""

    name, files, writes = "triplets", {"run.safetensors"}, EPOCHS

    def __init__(self, make_model, every):
        self.make_model, self.every = make_model, every

    def run(self, folder):
        result = fit(
            self.make_model(),
            two_clusters(),
            epochs=EPOCHS,
            batch_size=64,
            patience=EPOCHS,
            checkpoint=folder / "run.safetensors",
            checkpoint_every=self.every,
            resume=True,
            progress=False,
        )
        rows = [row[:4] for row in result.history]  # but not the seconds
        return {"weights": result.model.state_dict(), "history": rows, "best": result.best_epoch}

    def progress(self, folder):
        """How much is there after a kill; raises if it is damaged."""
        path = folder / "run.safetensors"
        return load_tree(path, "checkpoint")["epoch"] if path.exists() else 0


class SelfTraining:
    """Which writes nothing: a killed run is run again."""

    name, files, writes = "self-training", set(), 0

    def run(self, folder):
        model = DiffusionClassifier(6, 2, backend="torch")
        result = fit(model, two_clusters(200), epochs=3)
        rows = [row[:4] for row in result.history]
        return {"weights": result.model.state_dict(), "history": rows}

    def progress(self, folder):
        return 0


class Diffusion:
    """From file to file, in many panels; nobody may lose one that was noted."""

    name, files, writes = "diffuse_file", {"y.npy"}, 12

    def __init__(self, source):
        self.path, self.edges = source / "x.npy", two_clusters(300).edge_index
        np.save(self.path, np.random.default_rng(0).random((300, 150), np.float32))

    def run(self, folder):
        module = importlib.import_module("jsem_pyg.partition.files.diffuse_file")
        module.choose_width = lambda limit, flow, width: flow.unit
        module.STRIP = 30 * 150 * 4
        options = {"backend": "torch", "progress": False}
        diffuse_file(self.path, self.edges, folder / "y.npy", 2.0, **options)
        return {"y": torch.from_numpy(np.load(folder / "y.npy"))}

    def progress(self, folder):
        if (folder / "y.npy").exists():
            np.load(folder / "y.npy")
            return 10**6
        return len(list((folder / "y.npy.partial").glob("result-*")))


class Embedding:
    """Documents in blocks; nobody may lose a block that was written."""

    name, texts = "embedding", [f"{word} {number}" for number in range(40) for word in "abc"]

    def __init__(self):
        embedding = importlib.import_module("jsem_pyg.datasets.embedder")
        embedding._BLOCK = 6
        embedding.load_encoder = lambda model: FakeEncoder()
        self.embedder = embedding.Embedder
        blocks = [self.texts[at : at + 6] for at in range(0, len(self.texts), 6)]
        keys = map(self.embedder(None, Path())._key, blocks)
        self.files, self.writes = {f"{key}.safetensors" for key in keys}, len(blocks)

    def run(self, folder):
        return {"x": self.embedder(None, folder).embed(self.texts, lambda count: None)}

    def progress(self, folder):
        blocks = folder.glob("*.safetensors")
        return sum(len(load_tree(path, f"block of embeddings {path.stem}")) > 0 for path in blocks)


class Map:
    """`jsem-pyg map`, begun again by the same command; the record of a map is written last."""

    name, writes = "map", 4

    def __init__(self, source):
        self.files = {"map.safetensors", "clusters.csv", "clusterer.safetensors", "report.md"}
        self.path = source / "vectors.npy"
        np.save(self.path, vectors()[0])

    def run(self, folder):
        out = folder / "map"
        words = ["map", self.path, "-k", "2", "--layout", "none", "-o", out, "--overwrite"]
        main([str(word) for word in words], standalone_mode=False)
        clusterer = DiffusionClusterer.load(out / "clusterer.safetensors")
        text = (out / "clusters.csv").read_text()
        return {"text": text, "p": torch.from_numpy(clusterer.predict_proba(vectors()[0] + 0.1))}

    def progress(self, folder):
        record = folder / "map" / "map.safetensors"
        if record.exists():
            MapFolder(record.parent).read()
            DiffusionClusterer.load(MapFolder(record.parent).clusterer)
        return 0


def all_cases(source: Path):
    return [
        TripletRun(Normed, every=1),
        Diffusion(source),
        TripletRun(lambda: SmoothingStub(dropout=0.5), every=2),
        SelfTraining(),
        TripletRun(lambda: AnisotropicDiffusion(t=[1.0, 4.0], backend="torch"), every=1),
        Embedding(),
        Map(source),
    ]


def import_what_children_need():
    """What is imported at the first use, or every child would: seconds each."""
    for module in ("pandas", "safetensors.torch", "sklearn.cluster", "sklearn.datasets"):
        importlib.import_module(module)
    optimizer = torch.optim.Adam([nn.Parameter(torch.zeros(1))])
    optimizer.zero_grad()
    optimizer.step()


def write_result(case, folder, out):
    torch.manual_seed(random.randrange(2**30))  # which nothing may depend on
    save_tree(out, "result", "result", case.run(folder))
