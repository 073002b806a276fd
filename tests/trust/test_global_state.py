"""No public call depends on torch's or NumPy's global state, nor changes the global generators.

Every good call is made within a state, with arguments from outside of it: the same comes out.
"""

import inspect
import random
import re
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from trust.good_calls import GOOD, good_call
from trust.test_layouts import numbers

from jsem_pyg.nn import DiffusionClassifier
from jsem_pyg.training import fit
from jsem_pyg.transport import gw_distance

pytestmark = pytest.mark.ci

# Whose result is in torch's default type, and whose linear maps go as autocast says. On another
# device than the default one, graphs are built, aligned and trained on only with errors of torch's.
IN_DEFAULT_TYPE = r"curvature\.jaccard_overlap"
MAPS = (
    r"nn\.\w*ChebConv\.forward|nn\.DiffusionClassifier\.(forward|classify|conductances)"
    r"|nn\.(Endpoint|MLP|Sigmoid)Conductance\.\w+|training\.fit"
)
CALLS = [key for key, make in GOOD.items() if not inspect.isclass(make()[0])]


@contextmanager
def default_type(dtype):
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextmanager
def set_to(change, state, before):
    change(state)
    try:
        yield
    finally:
        change(before)


def saved_elsewhere():
    return torch.autograd.graph.saved_tensors_hooks(torch.clone, lambda x: x)


STATES = {  # how to enter, calls that may differ
    "float64 by default": (lambda: default_type(torch.float64), IN_DEFAULT_TYPE),
    "bfloat16 by default": (lambda: default_type(torch.bfloat16), IN_DEFAULT_TYPE),
    "autocast": (lambda: torch.autocast("cpu", torch.bfloat16), MAPS),
    "inference mode": (torch.inference_mode, None),
    "no gradients": (torch.no_grad, None),
    "saved elsewhere": (saved_elsewhere, None),
    "determinism": (lambda: set_to(torch.use_deterministic_algorithms, True, False), None),
    "no denormals": (lambda: set_to(torch.set_flush_denormal, True, False), None),
    "floating-point errors": (lambda: np.errstate(all="raise"), None),
    "another device": (lambda: torch.device("meta"), r"(?!curvature|diffusion|nn|operators).*"),
}


CASES = [
    pytest.param(key, name, id=f"{key}-{name}")
    for name, (_, may_differ) in STATES.items()
    for key in CALLS
    if not (may_differ and re.fullmatch(may_differ, key))
]


def generators():
    numpy_state = np.random.get_state()[1:3]  # noqa: NPY002 (that of others is not to change)
    return [random.getstate(), *numpy_state, torch.random.get_rng_state()]


def called(key, state):
    torch.manual_seed(0)
    function, given = good_call(key)
    before = generators()
    with state():
        found = function(**given)
    found = numbers(found)
    if not key.endswith("set_num_classes"):  # which draws parameters
        assert all(map(np.array_equal, map(np.asarray, generators()[1:]), before[1:]))
        assert generators()[0] == before[0]
    return found


@pytest.mark.parametrize(("key", "name"), CASES)
def test_every_call_gives_the_same(key, name):
    state = STATES[name][0]
    expected = called(key, torch.enable_grad)
    torch.testing.assert_close(called(key, state), expected, rtol=2e-7, atol=2e-7, equal_nan=True)


def test_tensors_of_inference_mode_are_trained_on_and_aligned():
    function, usual = good_call("training.fit")
    expected = numbers(function(**usual))
    with torch.inference_mode():
        _, given = good_call("training.fit")
        _, pair = good_call("transport.gw_distance")
        refused = DiffusionClassifier(3, 2)
    given["model"] = good_call("training.fit")[1]["model"]
    torch.testing.assert_close(numbers(function(**given)), expected)
    assert gw_distance(pair["source"], pair["target"], epsilon=0.3, progress=False).isfinite()
    with pytest.raises(ValueError, match="'model' to have parameters that can be trained"):
        fit(refused, given["data"])
