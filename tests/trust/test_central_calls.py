"""The central calls refuse bad input by name, and give the same however they are called.

Bad input follows from the signatures: each argument in turn is replaced by what its annotation and
its good value exclude. Memory layouts, global state and threads must not change a result.
"""

import copy
import inspect
import random
import re
import sys
import time
import typing
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier

import numpy as np
import pytest
import torch
from layer_cases import NUM_NODES, make_data
from torch.testing import assert_close
from torch_geometric.data import Data
from trust.central_calls import CALLS, CONSTRUCTORS, central_call, numbers
from trust.draws import lay_out

from jsem_pyg.curvature import forman_curvature
from jsem_pyg.diffusion import heat_diffusion
from jsem_pyg.graph import GraphStructure

OWN_ERRORS = (TypeError, ValueError, RuntimeError, NotImplementedError)
LONGEST = 5.0  # seconds of the processor: a bad call must not start to work
# What looks bad and is right: "call argument: value", with the reason.
ALLOWED = {
    r"\S+ x: with a dimension too many": "leading dimensions are batches",
    r"expm_multiply t: -1.0": "a matrix has an exponential for either sign",
    r"heat_kernel_columns nodes: with an entry too many": "any number of nodes",
    r"HypergraphDiffusion hyperedge_weight: with an entry too many": "the last one may be empty",
    r"knn_graph batch: .*": "graphs are told apart by any number",
    r"prune_edges data: (x|edge_attr) .*": "features are not looked at",
    r"fit data: (x|edge_attr|y) .*": "what a model makes of them is its own affair",
}


def annotations(function):
    """The types of the arguments, by name, and the defaults."""
    target = function
    if inspect.isclass(function):
        target = function.__init__
    elif not inspect.isroutine(function):
        target = function.forward  # of a layer or a transform
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(target).parameters
    hints = typing.get_type_hints(target)
    return {
        name: (hints.get(name, typing.Any), each.default)
        for name, each in parameters.items()
        if name != "self" and each.kind not in kinds
    }


def kinds_of(hint):
    """The types that an annotation takes, flattened; its words count as strings."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Literal:
        return {type(each) for each in parts}
    if parts and origin not in (list, tuple, dict) and not inspect.isclass(origin):
        return set().union(*map(kinds_of, parts))
    if origin is not None and inspect.isclass(origin) and "Union" in origin.__name__:
        return set().union(*map(kinds_of, parts))
    return {origin or hint}


def bad_values(hint, good):
    """[(name, value)] of what an argument must not be."""
    kinds = kinds_of(hint)
    yield "a stranger", object()
    yield "a complex number", 1j
    if str in kinds or not kinds & {typing.Any}:
        yield "an unknown word", "nonsense"
    if isinstance(good, torch.Tensor):
        yield from bad_tensors(good)
    elif isinstance(good, Data):
        yield "an empty Data", Data()
        for name, value in good.to_dict().items():
            for what, bad in bad_tensors(value):
                changed = copy.copy(good)
                changed[name] = bad
                yield f"{name} {what}", changed
    elif float in kinds:
        yield from {"NaN": float("nan"), "infinity": float("inf"), "-1.0": -1.0}.items()
    elif int in kinds:
        yield from {"-3": -3, "1.5": 1.5}.items()
    elif isinstance(good, bool):
        yield "a number", 3


def bad_tensors(good):
    yield "complex", good.to(torch.complex64)
    yield "a scalar", good.flatten()[0].clone()
    yield "with a dimension too many", good[None, None].expand(2, 2, *good.shape)
    if good.dim() == 1:
        yield "with an entry too many", torch.cat([good, good[:1]])
    if good.is_floating_point():
        yield "with NaN", changed(good, float("nan"))
        yield "with infinity", changed(good, float("inf"))
    else:
        yield "of floats", good.double() + 0.5
        yield "with a large entry", changed(good, 10**6)
        yield "with a negative entry", changed(good, -7)


def changed(good, value):
    bad = good.clone()
    bad.view(-1)[0] = value
    return bad


def bad_cases(key):
    function, given = central_call(key)
    for name, (hint, default) in annotations(function).items():
        for what, bad in bad_values(hint, given.get(name, default)):
            case = f"{key} {name}: {what}"
            if not any(re.fullmatch(pattern, case) for pattern in ALLOWED):
                yield case, name, bad


def complaint(key, name, bad):
    """What is wrong with how a bad call is refused, or None."""
    function, given = central_call(key)
    fits_to = [each for each, value in given.items() if isinstance(value, torch.Tensor)]
    names = [name, *bad.to_dict()] if isinstance(bad, Data) else [name]
    if isinstance(bad, torch.Tensor) and bad.shape != getattr(given.get(name), "shape", None):
        names += fits_to  # the other shape may be taken for the wrong one
    given[name] = bad
    before = [each.clone() for each in numbers(given)]
    began = time.process_time()
    try:
        function(**given)
    except Exception as error:
        said = str(error)
        is_ours = isinstance(error, OWN_ERRORS) and said.startswith("Expected ") and "(got" in said
        if not is_ours or not re.search(rf"'(\w+\.)?({'|'.join(names)})['.\[]", said):
            return f"{type(error).__name__}: {said[:200]}"
    else:
        return "taken without a word"
    if time.process_time() - began > LONGEST:
        return f"refused after {time.process_time() - began:.1f} s"
    after = numbers(given)
    pairs = zip(before, after, strict=True)
    same = all(torch.equal(one.nan_to_num(), other.nan_to_num()) for one, other in pairs)
    return None if same else "refused, but an argument was changed"


REFUSING = [
    key for key in [*CALLS, *CONSTRUCTORS] if key not in ("fit a classifier", "DiffusionClusterer")
]


@pytest.mark.parametrize("key", REFUSING)
def test_bad_arguments_are_refused_by_name(key):
    answers = {case: complaint(key, name, bad) for case, name, bad in bad_cases(key)}
    failed = [f"{case} -> {answer}" for case, answer in answers.items() if answer is not None]
    assert len(answers) > 8
    assert not failed, f"{len(failed)} of {len(answers)}:\n" + "\n".join(failed)


# Memory layouts


LAYOUTS = ["transposed", "sliced", "strided", "expanded", "int32"]


def anew(value, layout):
    """(the same values in another layout, the same in the usual one); None where there is none."""
    if isinstance(value, list):
        pairs = [anew(each, layout) for each in value]
        return None if None in pairs or not pairs else tuple(map(list, zip(*pairs, strict=True)))
    if isinstance(value, np.ndarray):
        pair = anew(torch.from_numpy(value), layout)
        return None if pair is None else tuple(each.numpy() for each in pair)
    if isinstance(value, Data):
        other, usual = value.clone(), value.clone()
        for name in GRAPH_PARTS & set(value.keys()):
            pair = anew(value[name], layout)
            if pair is not None:
                other[name], usual[name] = pair
        return other, usual
    if not isinstance(value, torch.Tensor) or value.dim() == 0:
        return None
    if layout == "int32":
        return (value.int(), value) if value.dtype == torch.int64 else None
    laid_out = lay_out(value, layout)
    return laid_out, laid_out.contiguous().clone()


GRAPH_PARTS = {"x", "edge_index", "edge_weight", "edge_attr"}


def outcome(key, chosen):
    """What a call gives, or what it says; the arguments replaced by name."""
    function, given = central_call(key)
    try:
        return numbers(function(**{**given, **chosen})), None
    except (TypeError, ValueError, RuntimeError) as error:
        return [], str(error)


@pytest.mark.ci
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("key", CALLS)
def test_the_layout_makes_no_difference(key, layout):
    _, given = central_call(key)
    pairs = {name: anew(value, layout) for name, value in given.items()}
    pairs = {name: pair for name, pair in pairs.items() if pair is not None}
    (actual, said), (expected, meant) = (
        outcome(key, {name: pair[i] for name, pair in pairs.items()}) for i in (0, 1)
    )
    assert said == meant
    rtol = 1e-2 if key.startswith("fit") else 1e-4 if key == "gromov_wasserstein" else 1e-5
    assert_close(actual, expected, rtol=rtol, atol=1e-6, equal_nan=True)


# Global state


@contextmanager
def set_to(change, state, before):
    change(state)
    try:
        yield
    finally:
        change(before)


def default_type(dtype):
    return set_to(torch.set_default_dtype, dtype, torch.get_default_dtype())


MAPS = r"AnisotropicChebConv|DiffusionClassifier|fit"  # whose linear maps go as autocast says
STATES = {  # how to enter, calls that may differ
    "float64 by default": (lambda: default_type(torch.float64), None),
    "autocast": (lambda: torch.autocast("cpu", torch.bfloat16), MAPS),
    "no gradients": (torch.no_grad, None),
    "determinism": (lambda: set_to(torch.use_deterministic_algorithms, True, False), None),
    "floating-point errors": (lambda: np.errstate(all="raise"), None),
}


def generators():
    numpy_state = np.random.get_state()[1:3]  # noqa: NPY002 (that of others is not to change)
    states = [*random.getstate()[1], *numpy_state[0], numpy_state[1]]
    return [torch.tensor(states, dtype=torch.float64), torch.random.get_rng_state()]


@pytest.mark.ci
@pytest.mark.parametrize("name", STATES)
@pytest.mark.parametrize("key", CALLS)
def test_global_state_makes_no_difference(key, name):
    state, may_differ = STATES[name]
    if may_differ and re.fullmatch(may_differ, key):
        pytest.skip("its linear maps follow autocast")
    function, given = central_call(key)
    expected = numbers(function(**given))
    function, given = central_call(key)
    before = generators()
    with state():
        found = numbers(function(**given))
    assert all(map(torch.equal, generators(), before))
    assert_close(found, expected, rtol=1e-5, atol=1e-5, equal_nan=True)


# Threads


NUM_THREADS = 4
SHARED = [key for key in CALLS if key != "fit a classifier"]  # which is what it trains


@pytest.fixture
def _switch_often():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


def at_once(work):
    """What each of the threads gets; all begin together."""
    barrier = Barrier(NUM_THREADS)

    def begin(number):
        barrier.wait()
        return work(number)

    with ThreadPoolExecutor(NUM_THREADS) as pool:
        return list(pool.map(begin, range(NUM_THREADS)))


def with_gradients(function, given):
    """What comes out, and the gradients of the signal and of what a layer learns."""
    given = dict(given)
    x = given.get("x")
    if isinstance(x, torch.Tensor) and x.is_floating_point():
        given["x"] = x = x.clone().requires_grad_()
    out = function(**given)
    if not isinstance(out, torch.Tensor) or not out.requires_grad:
        return numbers(out)
    learned = function.parameters() if isinstance(function, torch.nn.Module) else []
    leaves = [each for each in (x, *learned) if each is not None and each.requires_grad]
    found = torch.autograd.grad(out.sin().sum(), leaves, allow_unused=True)
    return [*numbers(out), *(each.double() for each in found if each is not None)]


def assert_as_alone(key, rounds=2):
    """Threads share what is called, such as a layer, each with arguments of its own."""
    draws = [central_call(key, seed)[1] for seed in range(NUM_THREADS)]
    expected = [with_gradients(central_call(key)[0], copy.deepcopy(each)) for each in draws]
    for _ in range(rounds):  # what is made at the first use is made together
        function, ready = central_call(key)[0], copy.deepcopy(draws)
        found = at_once(lambda n: with_gradients(function, ready[n]))  # noqa: B023
        assert_close(found, expected, equal_nan=True)


@pytest.mark.ci
@pytest.mark.usefixtures("_switch_often")
@pytest.mark.parametrize("key", SHARED)
def test_threads_get_what_each_gets_alone(key):
    assert_as_alone(key)


@pytest.mark.ci
@pytest.mark.usefixtures("_switch_often")
def test_threads_share_a_graph():
    graphs = [make_data(seed) for seed in range(NUM_THREADS)]

    def use(structure, data):
        out = heat_diffusion(data.x, structure, t=2.0)
        return [out, structure.reverse, *structure.edges, forman_curvature(structure)]

    def made():
        return GraphStructure(graphs[0].edge_index, NUM_NODES)

    expected = [use(made(), each) for each in graphs]
    shared = made()
    assert_close(at_once(lambda number: use(shared, graphs[number])), expected)
