import argparse
import datetime
import functools
import logging
import operator
import os
import random
import re
import subprocess
import sys
from array import array
from collections import deque
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import torch_geometric.transforms as T
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

import jsem_pyg
from jsem_pyg._fingerprint import describe, digest
from jsem_pyg.nn import AnisotropicChebConv, AnisotropicDiffusion, DiffusionClassifier


def differ(a, b):
    """The names of what differs."""
    a, b = describe("it", a), describe("it", b)
    return {name for name in {**a, **b} if a.get(name) != b.get(name)}


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "float16", "complex64"])
def test_a_digest_sees_every_entry_the_type_and_the_shape(dtype):
    x = torch.zeros(50, 3).to(getattr(torch, dtype))
    digests = {digest(x), digest(x.T), digest(x.view(-1)), digest(x.clone())}
    assert len(digests) == 3
    for place in range(x.numel()):
        changed = x.clone()
        changed.view(-1)[place] = 1
        digests.add(digest(changed))
    assert len(digests) == 3 + x.numel()


def test_a_digest_is_of_the_numbers_not_of_where_they_lie():
    x = torch.randn(4, 6)
    assert digest(x) == digest(x.T.contiguous().T) == digest(torch.cat([x, x])[:4])
    assert digest(x.to_sparse()) == digest(x.to_sparse().clone()) != digest(x)
    assert digest(x.to_sparse()) != digest((2 * x).to_sparse())
    assert digest(x.to_sparse_csr()) != digest((2 * x).to_sparse_csr())


@pytest.mark.parametrize(
    ("make", "change", "name"),
    [
        (AnisotropicDiffusion, {"normalization": "rw"}, "it.options.normalization"),
        (AnisotropicDiffusion, {"degree": 7}, "it.options.degree"),
        (AnisotropicDiffusion, {"tol": 1e-4}, "it.options.tol"),
        (AnisotropicDiffusion, {"backend": "reference"}, "it.options.backend"),
        (functools.partial(AnisotropicChebConv, 6, 3), {"degree": 3}, "it.options.degree"),
        (functools.partial(DiffusionClassifier, 6, 3), {"tol": 0.1}, "it.isotropic.options.tol"),
        (functools.partial(GCNConv, 6, 3), {"improved": True}, "it.improved"),
        (nn.Dropout, {"p": 0.4}, "it.p"),
    ],
)
def test_the_configuration_of_layers_is_seen(make, change, name):
    assert name in differ(make(), make(**change))
    assert not differ(make(), make())
    both = [nn.Sequential(nn.ReLU(), make()), nn.Sequential(nn.ReLU(), make(**change))]
    assert name.replace("it", "it.1", 1) in differ(*both)


def test_weights_are_left_to_the_state_dict_but_not_what_is_frozen_or_unsaved():
    a, b = nn.Linear(3, 2), nn.Linear(3, 2)
    assert not differ(a, b)
    b.bias.requires_grad_(False)
    assert differ(a, b) == {"it.bias.requires_grad"}
    a, b = nn.Module(), nn.Module()
    for model, value in ((a, 0.0), (b, 1.0)):
        model.register_buffer("scale", torch.tensor(value), persistent=False)
        model.register_buffer("saved", torch.tensor(value))
    assert differ(a, b) == {"it.scale"}


def test_lazy_modules_are_the_same_before_and_after_their_first_call():
    for make in (lambda: nn.LazyLinear(3), lambda: AnisotropicChebConv(-1, 3)):
        lazy = make()
        edge_index = torch.tensor([[0, 1], [1, 0]])
        x = torch.ones(2, 4)
        lazy(x) if isinstance(lazy, nn.Linear) else lazy(x, edge_index)
        assert not differ(lazy, make())


@dataclass
class Options:
    width: int
    name: str = "a"


@dataclass(slots=True)
class Narrow:
    width: int


def ragged(middle):
    """An array of arrays, one of which is so long that its repr is cut."""
    parts = np.empty(2, dtype=object)
    parts[:] = [np.array([0.0] * 1000 + [middle] + [0.0] * 1000), torch.ones(1)]
    return parts


class Table(pd.DataFrame):
    pass


class Slots(Narrow):
    __slots__ = ("name",)

    def __init__(self, name):
        self.width, self.name = 1, name


class Holder:
    def __init__(self, value, hidden=None):
        self.value, self.hidden = value, hidden or object()


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (1, 2),
        (1, True),
        (0.1, np.float64(0.2)),
        ("1", 1),
        ([1], [1, 2]),
        ({"a": 1}, {"a": 2}),
        ({1, 2}, {1, 3}),
        (np.ones(3), np.zeros(3)),
        (torch.float32, torch.float64),
        (torch.relu, torch.sigmoid),
        (len, sorted),
        (lambda x: x + 1, lambda x: x + 2),
        (lambda x: x.sum(), lambda x: x.mean()),
        (operator.methodcaller("sum"), operator.methodcaller("mean")),
        (functools.cache(lambda x: x + 1), functools.cache(lambda x: x + 2)),
        (lambda x: x[:, (0, 1)], lambda x: x[:, (0, 2)]),
        (lambda x: x.sum(dim=0), lambda x: x.sum(axis=0)),
        (lambda x, y=1: x, lambda x, y=2: x),
        (functools.partial(max, 1), functools.partial(max, 2)),
        (Options(1), Options(2)),
        (Narrow(1), Narrow(2)),
        (Slots("a"), Slots("b")),
        (Data(x=torch.ones(2)), Data(x=torch.zeros(2))),
        (np.array(["a"]), np.array(["b"])),
        (np.array([1, "a"], dtype=object), np.array([2, "a"], dtype=object)),
        (np.array([1j]), np.array([2j])),
        (np.array(["2020"], dtype="M8[D]"), np.array(["2021"], dtype="M8[D]")),
        (np.array([1.0], dtype=">f4"), np.array([2.0], dtype=">f4")),
        (np.array([1.0], dtype=np.longdouble), np.array([2.0], dtype=np.longdouble)),
        (range(3), range(4)),
        (slice(1), slice(2)),
        (bytearray(b"a"), bytearray(b"b")),
        (Path("a"), Path("b")),
        (Fraction(1, 2), Fraction(1, 3)),
        (Decimal("1.0"), Decimal("1.1")),
        (datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)),
        (re.compile("a"), re.compile("a", re.IGNORECASE)),
        (pd.DataFrame({"a": [1]}), pd.DataFrame({"a": [2]})),
        (pd.DataFrame({"a": [1]}), pd.DataFrame({"b": [1]})),
        (pd.Series(["x"], index=[0]), pd.Series(["x"], index=[1])),
        (pd.Index(["x"]), pd.Index(["y"])),
        (pd.Categorical(["x"]), pd.Categorical(["y"])),
        (pd.array([1, None], dtype="Int64"), pd.array([2, None], dtype="Int64")),
        (deque([1, 2]), deque([1, 3])),
        (array("d", [1, 2]), array("d", [1, 3])),
        (random.Random(1), random.Random(2)),
        (np.random.default_rng(1), np.random.default_rng(2)),
        (np.random.RandomState(1), np.random.RandomState(2)),
        (torch.Generator().manual_seed(1), torch.Generator().manual_seed(2)),
        (torch.eye(3).to_sparse_csc(), 2 * torch.eye(3).to_sparse_csc()),
        (ragged(1.0), ragged(2.0)),
        (Table({"a": [1]}), Table({"a": [2]})),
        (argparse.Namespace(k=1), argparse.Namespace(k=2)),
        (T.NormalizeFeatures(["x"]), T.NormalizeFeatures(["pos"])),  # whose repr is the same
        (T.Compose([T.AddSelfLoops()]), T.Compose([T.ToUndirected()])),
    ],
)
def test_differences_are_seen(a, b):
    assert differ(a, b)
    assert not differ(a, a)


def test_sparse_tensors_of_torch_sparse():
    eye = pytest.importorskip("torch_sparse").SparseTensor.eye
    adj = eye(3)
    assert differ(adj, adj.set_value(torch.full((3,), 2.0)))
    assert differ(adj, eye(3, 4))
    assert not differ(adj, eye(3))


def test_an_object_is_known_by_what_it_holds():
    given = {"path": Path("a"), "ks": range(3), "table": pd.DataFrame({"a": [1]}), "f": len}
    given["partial"], given["rng"] = functools.partial(max, 1), random.Random(1)
    others = {"path": Path("b"), "ks": range(4), "table": pd.DataFrame({"a": [2]}), "f": max}
    others["partial"], others["rng"] = functools.partial(max, 2), random.Random(2)
    for name, other in others.items():
        assert differ(argparse.Namespace(**given), argparse.Namespace(**given | {name: other}))


def test_deep_in_other_objects():
    assert describe("it", Holder(1), deep=True) != describe("it", Holder(2), deep=True)
    namesake = type("Holder", (), {"__module__": "another", "__qualname__": "Holder"})()
    namesake.value = namesake.hidden = 1
    assert describe("it", Holder(1, 1), deep=True) != describe("it", namesake, deep=True)
    loop, log = Holder(1), logging.getLogger(__name__)
    loop.hidden = [loop, log, logging]
    assert not [name for name in describe("it", loop, deep=True) if name.startswith("it.hidden.1.")]


def test_closures_are_seen_by_what_they_close_over():
    def make(k):
        return lambda x: x * k

    assert differ(make(2), make(3)) == {"it.k"}
    assert not differ(make(2), make(2))


def test_what_means_the_same_is_the_same():
    assert not differ(1, 1.0)
    assert not differ(np.float64(0.1), 0.1)
    assert not differ(float("nan"), float("nan"))
    assert not differ({"a", "b", "c"}, {"c", "b", "a"})
    assert not differ(Holder(1), Holder(2))  # known by its class: it holds more than plain values
    loop = []
    loop.append(loop)
    assert describe("it", loop)


SCRIPT = """
from torch import nn
from jsem_pyg.nn import DiffusionClassifier
from jsem_pyg._fingerprint import describe
model = nn.Sequential(DiffusionClassifier(3, 2))
model.act, model.names = nn.functional.relu, {"a", "b", "c", "d"}
texts = describe("it", [model, lambda x, a={"u", "v"}: x in {"p", "q", "r"}])
print(texts)
"""


@pytest.mark.slow
def test_it_is_stable_from_process_to_process(capsys):
    environment = {"PYTHONPATH": str(Path(jsem_pyg.__file__).parents[1]), "PYTHONHASHSEED": "7"}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | environment,
    )
    exec(SCRIPT, {"__name__": "__main__"})
    assert run.stdout == capsys.readouterr().out
    assert "it.0.0.isotropic.options.degree" in run.stdout
