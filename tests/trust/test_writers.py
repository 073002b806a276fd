"""Two that write to the same place at once: each result is whole, one wins, or one is refused."""

from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

import numpy as np
import pytest
import torch
from command.command_cases import run, vectors
from trust.disk_cases import file_size_limit

from jsem_pyg.estimators import DiffusionClusterer

WORDS = ("--layout", "none", "-k", "2")


def test_a_file_is_always_one_of_its_writers(tmp_path):
    path, (x, _) = tmp_path / "a.safetensors", vectors()
    models = [DiffusionClusterer(2, t=2.0, random_state=seed).fit(x) for seed in range(3)]

    def write(number):
        for _ in range(20):
            models[number].save(path)

    write(0)
    with ThreadPoolExecutor(3) as pool:
        writers = [pool.submit(write, number) for number in range(3)]
        seen = []
        while not all(each.done() for each in writers) or not seen:
            seen.append(DiffusionClusterer.load(path).random_state)  # or damage is told
        for each in writers:
            each.result()
    assert set(seen) <= {0, 1, 2}
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_a_second_run_on_the_folder_of_a_map_is_refused(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", vectors()[0])
    make_map = import_module("jsem_pyg.command.make_map")
    real, seen = make_map.limit_threads, []
    words = ["map", tmp_path / "x.npy", *WORDS, "-o", tmp_path / "map"]

    def meanwhile(*args):
        if not seen:
            seen.append(None)
            seen[0] = run(*words, "--overwrite")
        return real(*args)

    monkeypatch.setattr(make_map, "limit_threads", meanwhile)
    assert run(*words).exit_code == 0
    assert seen[0].exit_code == 1
    assert "no other run to be writing to '--output'" in seen[0].output
    assert run("predict", tmp_path / "map", tmp_path / "x.npy").exit_code == 0


def test_what_a_full_disk_stops_is_not_there_or_as_it_was(tmp_path, monkeypatch):
    """Models, blocks of embeddings and maps."""
    full = pytest.raises(OSError, match="too large|No space")
    x, _ = vectors()
    model = DiffusionClusterer(2, t=2.0, random_state=0).fit(x)
    model.save(tmp_path / "model.st")
    with file_size_limit(1000), full:
        model.save(tmp_path / "model.st")
    known = DiffusionClusterer.load(tmp_path / "model.st").predict_proba(x)
    assert np.array_equal(known, model.predict_proba(x))

    embedding = import_module("jsem_pyg.datasets.embedder")
    monkeypatch.setattr(embedding, "load_encoder", lambda model: None)
    monkeypatch.setattr(embedding, "encode", lambda encoder, texts: torch.ones(len(texts), 64))
    with file_size_limit(1000), full:
        embedding.Embedder(None, tmp_path / "cache").embed(
            ["a", "b", "c", "d", "e"], lambda count: None
        )
    assert not list((tmp_path / "cache").iterdir())

    np.save(tmp_path / "x.npy", x)
    words = ["map", tmp_path / "x.npy", *WORDS, "-o", tmp_path / "map"]
    with file_size_limit(2000):
        result = run(*words)
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    assert "Error: " in result.output
    assert run("predict", tmp_path / "map", tmp_path / "x.npy").exit_code != 0
    assert run(*words).exit_code == 0
    assert run("predict", tmp_path / "map", tmp_path / "x.npy").exit_code == 0
