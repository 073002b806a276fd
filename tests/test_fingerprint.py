import argparse
import functools
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn
from torch_geometric.nn import GCNConv

from jsem_pyg._fingerprint import check_same_settings, describe, digest
from jsem_pyg.nn import AnisotropicChebConv, AnisotropicDiffusion, DiffusionClassifier


def differ(a, b):
    """The names of what differs."""
    a, b = describe("it", a), describe("it", b)
    return {name for name in {**a, **b} if a.get(name) != b.get(name)}


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_a_digest_sees_every_entry_the_type_and_the_shape(dtype):
    x = torch.zeros(50, 3).to(getattr(torch, dtype))
    digests = {digest(x), digest(x.T), digest(x.view(-1)), digest(x.clone())}
    assert len(digests) == 3
    for place in range(x.numel()):
        changed = x.clone()
        changed.view(-1)[place] = 1
        digests.add(digest(changed))
    assert len(digests) == 3 + x.numel()


@pytest.mark.parametrize(
    ("make", "change", "name"),
    [
        (AnisotropicDiffusion, {"degree": 7}, "it.options.degree"),
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
        (np.array(["a"]), np.array(["b"])),
        (torch.float32, torch.float64),
        (torch.relu, torch.sigmoid),
        (len, sorted),
        (Options(1), Options(2)),
        (argparse.Namespace(k=1), argparse.Namespace(k=2)),
    ],
)
def test_differences_are_seen(a, b):
    assert differ(a, b)
    assert not differ(a, a)


def test_what_means_the_same_is_the_same():
    assert not differ(1, 1.0)
    assert not differ(np.float64(0.1), 0.1)
    assert not differ(float("nan"), float("nan"))
    assert not differ({"a", "b", "c"}, {"c", "b", "a"})
    loop = []
    loop.append(loop)
    assert describe("it", loop)


def test_differences_are_named():
    same = {"t": "5.0", "k": 3}
    check_same_settings("run", same, dict(reversed(same.items())), "begin anew")
    with pytest.raises(ValueError, match=r"'k' to be 3, as .*'run' was .*\(got 4\).*begin anew"):
        check_same_settings("run", same, same | {"k": 4}, "begin anew")
    with pytest.raises(ValueError, match=r"'new' to be left out, .*got 1"):
        check_same_settings("run", same, same | {"new": 1}, "begin anew")
    with pytest.raises(ValueError, match=r"'k' to be 3, .*got left out"):
        check_same_settings("run", same, {"t": "5.0"}, "begin anew")
    other = dict.fromkeys("abcde", 1)
    with pytest.raises(ValueError, match=r"'c' to be 1 and 2 more, "):
        check_same_settings("run", other, dict.fromkeys(other, 2), "begin anew")
