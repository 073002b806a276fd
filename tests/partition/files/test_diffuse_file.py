"""From file to file, the numbers are those of heat_diffusion, also after a break."""

import os
import re
import shutil
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tiny_graphs import empty, single_node, star

from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.graph import GraphStructure
from jsem_pyg.nn import AnisotropicDiffusion
from jsem_pyg.partition import diffuse_file
from jsem_pyg.partition.files import flow as flow_module
from jsem_pyg.partition.files.panels import Panels, Source

diffuse_module = import_module("jsem_pyg.partition.files.diffuse_file")

N, D = 90, 70
PLENTY = "500GB"


@pytest.fixture(autouse=True)
def _without_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def panels(monkeypatch):
    """Call it to have panels of so many units, and strips of so many rows."""

    def have(units, strip=40):
        def choose(limit, flow, width=None):
            return width or min(units * flow.unit, flow.channels)

        monkeypatch.setattr(diffuse_module, "choose_width", choose)
        monkeypatch.setattr(diffuse_module, "STRIP", strip * D * 4)

    return have


def random_graph(num_nodes=N, seed=0):
    """With isolated nodes and repeated edges, and weights."""
    generator = torch.Generator().manual_seed(seed)
    pair = torch.randint(0, num_nodes - 5, (2, 4 * num_nodes), generator=generator)
    pair = pair[:, pair[0] != pair[1]]
    weight = torch.rand(pair.size(1), generator=generator)
    return torch.cat([pair, pair.flip(0)], dim=1), weight.repeat(2)


def signal(dtype="float32", shape=(N, D), order="C"):
    return np.asarray(np.random.default_rng(0).normal(size=shape), dtype=dtype, order=order)


def write(folder, x):
    np.save(folder / "x.npy", x)
    return folder / "x.npy"


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def diffused(folder, source, *args, **options):
    """The result, when nothing else is left."""
    before = files(folder)
    path = diffuse_file(source, args[0], folder / "y.npy", *args[1:], memory=PLENTY, **options)
    assert files(folder) == sorted({*before, "y.npy"})
    return np.load(path)


@pytest.mark.parametrize(
    ("dtype", "order", "units"),
    [
        ("float32", "C", None),
        ("float32", "C", 1),
        ("float32", "F", 2),
        ("float16", "C", 2),
        ("float16", "F", 1),
        ("float64", "C", 1),
    ],
)
def test_the_numbers_are_those_of_heat_diffusion(tmp_path, panels, dtype, order, units):
    if units:
        panels(units)
    edges, weight = random_graph()
    x = signal(dtype, order=order)
    source = write(tmp_path, x)
    for t in (2.0, torch.tensor([1.0, 3.0]), torch.rand(2, D)):
        expected = heat_diffusion(torch.from_numpy(x.copy()), edges, weight, t)
        actual = diffused(tmp_path, source, edges, t, edge_weight=weight)
        assert actual.dtype == x.dtype
        assert actual.flags.c_contiguous
        np.testing.assert_array_equal(actual, expected.numpy())


@pytest.mark.parametrize(
    ("normalization", "backend"), [("sym", "reference"), ("rw", "torch"), (None, "numba")]
)
def test_every_operator_and_backend(tmp_path, panels, normalization, backend):
    panels(1)
    edges, weight = random_graph()
    weight = weight.double()
    x = signal("float64")
    options = {"normalization": normalization, "backend": backend}
    actual = diffused(
        tmp_path, write(tmp_path, x), edges, 1.5, edge_weight=weight,
        **options,
    )  # fmt: skip
    expected = heat_diffusion(torch.from_numpy(x), edges, weight, 1.5, **options)
    np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-12, atol=1e-13)


def test_a_trained_layer(tmp_path, panels):
    panels(2)
    edges, weight = random_graph()
    half = torch.randn(weight.numel() // 2, 1, generator=torch.Generator().manual_seed(1))
    curvature = torch.cat([half, half])
    layer = AnisotropicDiffusion(t=[1.0, 4.0])
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3)
    x = signal()
    expected = layer(torch.from_numpy(x), edges, weight, curvature).detach()
    actual = diffused(
        tmp_path, write(tmp_path, x), GraphStructure(edges, N), layer.t,
        edge_weight=weight * layer.conductance(curvature),
    )  # fmt: skip
    together = np.concatenate(list(actual), axis=1)
    np.testing.assert_allclose(together, expected.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("graph", "channels"), [(empty(), 3), (single_node(), 1), (single_node(), 40), (star(4), 0)]
)
def test_hardly_anything(tmp_path, graph, channels):
    edges, num_nodes = graph
    x = signal(shape=(num_nodes, channels))
    for t in (1.0, [1.0, 2.0]):
        actual = diffused(tmp_path, write(tmp_path, x), edges, t)
        expected = heat_diffusion(torch.from_numpy(x), edges, t=torch.tensor(t))
        np.testing.assert_array_equal(actual, expected.numpy())


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_panels_pass_through_a_device(tmp_path, panels, device):
    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("no GPU")
    panels(2)
    edges, weight = random_graph()
    x, t = signal(), torch.tensor([1.0, 3.0])
    expected = heat_diffusion(torch.from_numpy(x), edges, weight, t)
    source = write(tmp_path, x)
    actual = diffused(tmp_path, source, edges, t, edge_weight=weight, device=device)
    np.testing.assert_allclose(actual, expected.numpy(), rtol=1e-5, atol=1e-6)


class PretendedCuda:
    """Streams of a device that is the CPU: they only write down in what order work is queued."""

    def __init__(self):
        self.events, self.num_streams = [], 0

    def Stream(self, device):
        self.num_streams += 1
        return PretendedStream(self.num_streams, self.events)

    def current_stream(self, device):
        return PretendedStream(0, self.events)

    @contextmanager
    def stream(self, stream):
        self.events.append(("begin", stream.name))
        yield


class PretendedStream:
    def __init__(self, name, events):
        self.name, self.events = name, events

    def record_event(self):
        self.events.append(("record", self.name))
        return self.name

    def wait_event(self, event):
        self.events.append(("wait", self.name, event))


@pytest.mark.parametrize("num_panels", [1, 2, 5])
def test_copies_of_a_panel_fall_into_the_time_of_the_next(monkeypatch, num_panels):
    """The copy to the device waits for nothing; panels are diffused one after the other."""
    cuda = PretendedCuda()
    monkeypatch.setattr(flow_module, "cuda", cuda)

    class Copy:
        def __init__(self, values):
            cuda.events.append(("copy back", int(values[0, 0])))
            self.values = values

        def read(self):
            cuda.events.append(("read", int(self.values[0, 0])))
            return self.values

    class Panel:
        def __init__(self, number):
            self.number = number

        def to(self, device, non_blocking):
            assert non_blocking
            cuda.events.append(("copy", self.number))
            return torch.full((2, 3), float(self.number))

    def diffuse(columns, x):
        cuda.events.append(("diffuse", int(x[0, 0])))
        return x

    monkeypatch.setattr(flow_module, "HostCopy", Copy)
    flow = SimpleNamespace(device=torch.device("cuda"), diffuse=diffuse)
    coming = [(slice(k, k + 1), Panel(k)) for k in range(num_panels)]
    found = list(flow_module.diffuse_panels(flow, coming))
    assert [columns.start for columns, _ in found] == list(range(num_panels))
    assert [values[0, 0] for _, values in found] == list(range(num_panels))
    assert cuda.num_streams == 2
    expected = [("record", 0)]  # the operator is made
    before = 0
    for k in range(num_panels):
        stream = 1 + k % 2
        expected += [("begin", stream), ("copy", k), ("wait", stream, before), ("diffuse", k)]
        expected += [("record", stream), ("copy back", k)]
        expected += [("read", k - 1)] * (k > 0)
        before = stream
    assert cuda.events == [*expected, ("read", num_panels - 1)]


class Chunked:
    """What h5py and zarr offer: slices, a shape and a type."""

    def __init__(self, array):
        self.array, self.shape, self.dtype = array, array.shape, array.dtype

    def __getitem__(self, index):
        return self.array[index]


def test_arrays_that_are_not_files(tmp_path, panels):
    panels(2)
    edges, _ = random_graph()
    x = signal()
    expected = heat_diffusion(torch.from_numpy(x), edges, t=2.0).numpy()
    mapped = np.load(write(tmp_path, x), mmap_mode="r")
    for source in (x, x.T.copy().T, torch.from_numpy(x), mapped, Chunked(x)):
        np.testing.assert_array_equal(diffused(tmp_path, source, edges, 2.0), expected)
    actual = diffused(tmp_path, x[:, ::-1], edges, 2.0)
    np.testing.assert_array_equal(actual, expected[:, ::-1])


@pytest.mark.parametrize(
    ("units", "strip", "value"), [(1, 17, np.nan), (2, 1000, -np.inf), (9, 17, 1e38)]
)
def test_a_bad_value_is_found_where_it_is(tmp_path, panels, units, strip, value):
    panels(units, strip)
    x = signal()
    x[61, 42] = value
    edges, _ = random_graph()
    with pytest.raises(ValueError, match="'source' to be finite.*row 61, column 42"):
        diffuse_file(write(tmp_path, x), edges, tmp_path / "y.npy", 1.0, memory=PLENTY)
    assert "y.npy" not in files(tmp_path)
    source = write(tmp_path, signal())  # and once it is mended
    diffuse_file(source, edges, tmp_path / "y.npy", 1.0, memory=PLENTY)
    assert files(tmp_path) == ["x.npy", "y.npy"]


def test_what_source_must_be(tmp_path):
    edges, _ = random_graph()

    def refused(source, error, match, target="y.npy", **options):
        with pytest.raises(error, match=match):
            diffuse_file(source, edges, tmp_path / target, 1.0, **{"memory": PLENTY, **options})
        assert target not in files(tmp_path) or target == "x.npy"

    path = write(tmp_path, signal())
    refused(np.ones((N, D), int), TypeError, "'source' to be one of float16.*int64")
    refused(np.ones((2, N, D)), ValueError, r"'source' to have shape \[N, D\] \(got \[2, 90, 70\]")
    refused(tmp_path / "no.npy", FileNotFoundError, "Expected 'source' to be .*no.npy")
    refused(Path(__file__), ValueError, "'source' to be a whole .npy file")
    refused(path, ValueError, "'target' to be another file than 'source'", "x.npy")
    mapped = np.load(path, mmap_mode="r")[:, 3:]
    refused(mapped, ValueError, "'target' to be another file than 'source'", "x.npy")
    refused(path, ValueError, "'target' to be the path of a .npy file", "y.txt")
    refused(path, ValueError, "'memory' to be at least .* for 90 nodes", memory="1KB")
    edges = edges[:, :1]
    refused(path, ValueError, "'edge_index' to be undirected")
    edges = random_graph(N + 50)[0]
    refused(path, ValueError, r"'edge_index' to hold node indices in \[0, 90\)")
    for memory in ("lots", "1.5 XB", "GB", "-1GB", 0):
        refused(path, ValueError, "'memory'", memory=memory)
    with (tmp_path / "x.npy").open("r+b") as file:
        file.truncate(2000)
    refused(path, ValueError, "'source' to be a whole .npy file")


def test_a_source_that_changes_meanwhile(tmp_path, panels, monkeypatch):
    panels(1)
    edges, _ = random_graph()
    source = write(tmp_path, signal())

    real = Panels.append_rows

    def change(self, values):
        os.utime(source, ns=(1, 1))
        real(self, values)

    with monkeypatch.context() as patch:
        patch.setattr(Panels, "append_rows", change)
        with pytest.raises(ValueError, match="'source' to stay as it is"):
            diffuse_file(source, edges, tmp_path / "y.npy", 1.0, memory=PLENTY)
    opened = Source(source)
    for size in (20000, 25328):
        os.truncate(source, size)
        with pytest.raises(ValueError, match="'source' to stay as it is"):
            opened.read(slice(0, N))
    assert not (tmp_path / "y.npy").exists()


class Killed(BaseException):
    """As if the process had gone."""


def interrupted(monkeypatch, step, after, run):
    """Run until a step has been taken `after` times; the next time, it is killed."""
    real, count = getattr(Panels, step), 0

    def counted(self, *given):
        nonlocal count
        count += 1
        if count > after:
            raise Killed
        return real(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(Panels, step, counted)
        with pytest.raises(Killed):
            run()


@pytest.mark.parametrize(
    ("step", "after", "panels_again"),
    [
        ("append_rows", 2, 2),
        ("note_gathered", 0, 2),
        ("write", 0, 5),
        ("write", 2, 3),
        ("write", 4, 1),
        ("read_rows", 1, 0),
        ("remove", 0, 0),  # the target is there already
    ],
)
def test_a_run_goes_on_where_it_was(tmp_path, panels, monkeypatch, step, after, panels_again):
    panels(1)
    edges, weight = random_graph()
    x = signal()
    source, target = write(tmp_path, x), tmp_path / "y.npy"

    def run():
        return diffuse_file(source, edges, target, 2.0, edge_weight=weight, memory=PLENTY)

    interrupted(monkeypatch, step, after, run)
    assert target.exists() == (step == "remove")
    diffused, real = [], Panels.read

    def counting(self, columns, out):
        diffused.append(columns)
        return real(self, columns, out)

    monkeypatch.setattr(Panels, "read", counting)
    panels(3)  # another limit, which matters only before there are panels
    np.testing.assert_array_equal(
        np.load(run()), heat_diffusion(torch.from_numpy(x), edges, weight, 2.0).numpy()
    )
    assert len(diffused) == panels_again
    assert files(tmp_path) == ["x.npy", "y.npy"]


@pytest.mark.parametrize("name", ["source-000064", "result-000000"])
def test_a_file_that_is_gone_or_too_short_is_refused(tmp_path, panels, monkeypatch, name):
    panels(1)
    edges, _ = random_graph()
    source, target = write(tmp_path, signal()), tmp_path / "y.npy"

    def run():
        return diffuse_file(source, edges, target, 2.0, memory=PLENTY)

    interrupted(monkeypatch, "write", 2, run)
    path = tmp_path / "y.npy.partial" / name
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(ValueError, match=f"{name}' to have .* rows"):
        run()
    path.unlink()
    with pytest.raises(FileNotFoundError, match="source-0000"):
        run()
    expected = heat_diffusion(torch.from_numpy(signal()), edges, t=2.0).numpy()
    shutil.rmtree(path.parent)
    np.testing.assert_array_equal(np.load(run()), expected)


def test_only_the_same_run_goes_on(tmp_path, panels, monkeypatch):
    panels(1)
    edges, weight = random_graph()
    source, target = write(tmp_path, signal()), tmp_path / "y.npy"
    same = {"source": source, "edge_index": edges, "t": 2.0, "edge_weight": weight}

    def run(**options):
        return diffuse_file(target=target, memory=PLENTY, **{**same, **options})

    interrupted(monkeypatch, "write", 2, run)
    others = {
        "t": [2.0],
        "edge_index": edges[:, :0],
        "edge_weight": weight * 2,
        "tol": 1e-3,
        "normalization": "rw",
        "backend": "torch",
    }
    for name, value in others.items():
        given = {name: value}
        if name == "edge_index":
            given["edge_weight"] = None
        with pytest.raises(ValueError, match=f"Expected .*'{name}' to be .*, as in the run"):
            run(**given)
    reordered = edges.view(2, 2, -1).roll(1, -1).flatten(1)
    with pytest.raises(ValueError, match="Expected 'edge_index' to be .*, as in the run"):
        run(edge_index=reordered)  # the same edges, with other weights
    os.utime(source, ns=(1, 1))
    with pytest.raises(ValueError, match="'source' to be .*, as in the run"):
        run()
    expected = heat_diffusion(torch.from_numpy(signal()), edges, weight * 2, 2.0).numpy()
    shutil.rmtree(tmp_path / "y.npy.partial")
    actual = np.load(run(edge_weight=weight * 2))
    np.testing.assert_array_equal(actual, expected)


def test_an_array_without_a_file_begins_anew(tmp_path, panels, monkeypatch):
    panels(1)
    edges, _ = random_graph()
    x = signal()

    def run():
        return diffuse_file(x, edges, tmp_path / "y.npy", 2.0, memory=PLENTY)

    interrupted(monkeypatch, "write", 1, run)
    x[17] += 1
    expected = heat_diffusion(torch.from_numpy(x), edges, t=2.0).numpy()
    np.testing.assert_array_equal(np.load(run()), expected)


def test_one_at_a_time(tmp_path, panels, monkeypatch):
    pytest.importorskip("fcntl")
    panels(1)
    edges, _ = random_graph()
    source, target = write(tmp_path, signal()), tmp_path / "y.npy"
    real, refused = Panels.note_gathered, []

    def meanwhile(self, settings):
        with pytest.raises(OSError, match="no other run to be writing to") as error:
            diffuse_file(source, edges, target, 2.0, memory=PLENTY)
        refused.append(error)
        return real(self, settings)

    monkeypatch.setattr(Panels, "note_gathered", meanwhile)
    diffuse_file(source, edges, target, 2.0, memory=PLENTY)
    assert len(refused) == 1
    assert files(tmp_path) == ["x.npy", "y.npy"]


def test_a_limit_that_is_too_low_names_what_is_needed(tmp_path):
    edges, _ = random_graph()
    source = write(tmp_path, signal())

    def run(memory):
        return diffuse_file(source, edges, tmp_path / "y.npy", 1.0, memory=memory)

    with pytest.raises(ValueError, match=r"'memory' to be at least .*B for 90 nodes") as error:
        run("10MB")
    assert not (tmp_path / "y.npy.partial").exists()
    number, unit = re.search(r"at least ([\d.]+) ([MG]B)", str(error.value)).groups()
    run(f"{1.02 * float(number)}{unit}")
