"""Bad input: every argument of every public call is refused by a message of our own.

The cases are made of the public signatures: from one good call each (`good_calls.py`) every
argument in turn is replaced by what its annotation does not allow (`bad_values.py`), but for the
exceptions of `legal_values.py`.
"""

import importlib
import importlib.util
import inspect
import re
import time
import typing

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from trust.bad_values import bad_values, same, snapshot
from trust.good_calls import GOOD
from trust.legal_values import is_legal

import jsem_pyg

STAGES = [name for name in jsem_pyg.__all__ if name != "testing"]  # whose errors are AssertionError
STAGES += ["jax"] if importlib.util.find_spec("jax") is not None else []
OWN_ERRORS = (TypeError, ValueError, RuntimeError, NotImplementedError)

# What takes arguments and is no door: nobody outside hands it what has not been checked.
NOT_DOORS = {
    r"\S+\.(message|propagate|propagate_once|collect)": "PyG's own hooks of a layer",
    r"nn\.\w+Conductance\.along": "what layers call, with the edges of a graph that is checked",
    r"transforms\.\w+\.columns": "what a subclass fills in, called on data that have been checked",
    r"\S+\.(check_once|whole)": "what the package calls, with what users handed over",
    r"graph\.\w+Structure\.(to_\w+|mean_of_columns|share_among_edges|symmetric)": (
        "what every step does with values that fit"
    ),
    r"graph\.GraphStructure\.(row_sums|spread|mean|largest\w*|make_matrix|widen|share_range)": (
        "what every step does with values that fit"
    ),
    r"partition\.DistributedGraph(\.\w+)?": "made by distribute and load_part",
    r"partition\.(load_part|save_parts)": "they read and write files, see tests/partition",
    r"diffusion\.filters\.Filter(\.\w+)?": "the base of the others",
    r"diffusion\.filters\.\w+\.(coefficients|reach|response)": "what the package calls",
    r"graph\.SimplicialStructure\.check_\w+_shape": "parts of other checks",
    r"operators\.(\w*Operator|Scaling)(\.\w+)?": "what operators are made of, see `testing`",
    r"evaluation\.\w+Scores": "a result",
    r"report\.Findings": "a record, looked at by report",
    r"transport\.Plan": "a result",
    r"partition\.PrunedGraph": "a result",
    r"training\.(EpochEnd|FitResult|Triplets)(\.\w+)?": "a result",
    r"training\.PruneEdges\.__call__": "what `fit` calls",
    r"jax\.Graph": "made by prepare_graph",
    r"models\..*": "PyG's own constructors; the layers check what they get, in tests/nn",
    r"estimators\..*": "scikit-learn's checks and messages, tried in tests/estimators",
    r"datasets\..*": "they read files, and are tried beside these, in tests/datasets",
}
OPERATIONS = ("forward", "__call__")  # what an object is called for
LONGEST = 5.0  # seconds of the processor: a bad call must not start to work


def public_calls():
    """The names of all that a user can call, and that takes an argument."""
    seen = set()
    for stage in (*STAGES, "diffusion.filters"):
        module = importlib.import_module(f"jsem_pyg.{stage}")
        for name in module.__all__:
            public = getattr(module, name)
            if not callable(public) or public in seen:
                continue
            seen.add(public)
            yield f"{stage}.{name}", public
            if inspect.isclass(public):
                for method, function in inspect.getmembers(public, inspect.isfunction):
                    is_ours = function.__module__.startswith("jsem_pyg")
                    if is_ours and (method in OPERATIONS or not method.startswith("_")):
                        yield f"{stage}.{name}.{method}", function


def arguments(function):
    """The arguments of a function by name, but for self and what is passed on."""
    passed_on = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    parameters = inspect.signature(function).parameters
    return {
        name: parameter
        for name, parameter in parameters.items()
        if name != "self" and parameter.kind not in passed_on
    }


def called(function):
    """What has the signature: of a transform its `forward`, which `__call__` goes to."""
    is_object = not inspect.isclass(function) and not inspect.isroutine(function)
    return getattr(function, "forward", function.__call__) if is_object else function


def annotations(function):
    target = function.__init__ if inspect.isclass(function) else called(function)
    try:
        return typing.get_type_hints(target)
    except NameError:  # of what is imported for type checkers alone
        return {}


def bad_cases(key):
    """[(case, argument, value)] of a public call, in the order of its signature."""
    function, given = GOOD[key]()
    hints = annotations(function)
    target = called(function)
    for name, parameter in arguments(target).items():
        good = given.get(name, parameter.default)
        hint = hints.get(name, parameter.annotation)
        for what, bad in bad_values(hint, good):
            case = f"{key} {name}: {what}"
            if not is_legal(case):
                yield case, name, bad


def owner(function):
    """What a method belongs to, whose state must not change either."""
    return getattr(function, "__self__", None if inspect.isclass(function) else function)


def complaint(key, name, bad):
    """What is wrong with how a bad call is refused, or None."""
    function, given = GOOD[key]()
    names = _names(name, bad, given)
    given[name] = bad
    touched = {**given, "self": owner(function)}
    before = {each: snapshot(value) for each, value in touched.items()}
    began = time.process_time()
    try:
        function(**given)
    except Exception as error:
        answer = _judge(error, names)
    else:
        answer = "taken without a word"
    if answer is None and time.process_time() - began > LONGEST:
        answer = f"refused after {time.process_time() - began:.1f} s"
    changed = [each for each in before if not same(before[each], snapshot(touched[each]))]
    if answer is None and changed:
        answer = f"refused, but changed: {', '.join(changed)}"
    return answer


def _names(name, bad, given):
    """What a message may name: the argument, an attribute of it, or what it does not fit to."""
    if isinstance(bad, Data):
        return [name, *bad.to_dict(), "x_new"]  # which an extension is asked for
    kinds = (torch.Tensor, np.ndarray)
    tensors = {each: value for each, value in given.items() if isinstance(value, kinds)}
    if name in tensors and isinstance(bad, kinds) and bad.shape != tensors[name].shape:
        return [name, *tensors]
    return [name]


def _judge(error, names):
    message = str(error)
    names_it = re.search(rf"'(\w+\.)?({'|'.join(names)})['.\[]", message) is not None
    is_ours = message.startswith("Expected ") and "(got" in message
    if isinstance(error, OWN_ERRORS) and is_ours and names_it:
        return None
    return f"{type(error).__name__}: {message[:200]}"


def is_door(key):
    return not any(re.fullmatch(pattern, key) for pattern in NOT_DOORS)


DOORS = [key for key, function in public_calls() if arguments(function) and is_door(key)]


def test_every_public_call_has_a_good_example():
    assert sorted(DOORS) == sorted({key.split(":")[0] for key in GOOD})


def taken(x):
    return x


def failing_inside(x):
    return x.size(0)


def naming_another(x):
    raise ValueError("Expected 'y' to be finite (got NaN).")


def changing(x):
    x.zero_()
    raise ValueError("Expected 'x' to be finite (got NaN).")


@pytest.mark.parametrize(
    ("function", "answer"),
    [
        (taken, "taken without a word"),
        (failing_inside, "AttributeError: .*"),
        (naming_another, "ValueError: .*"),
        (changing, "refused, but changed: x"),
    ],
)
def test_bad_manners_are_seen(function, answer, monkeypatch):
    monkeypatch.setitem(GOOD, "fake", lambda: (function, {"x": torch.ones(3)}))
    bad = None if function is failing_inside else torch.full((3,), torch.nan)
    assert re.fullmatch(answer, complaint("fake", "x", bad))


def test_the_cases_are_many():
    assert sum(1 for key in GOOD for _ in bad_cases(key)) > 6000


@pytest.mark.parametrize("key", GOOD)
def test_good_calls_are_good(key):
    function, given = GOOD[key]()
    function(**given)


@pytest.mark.parametrize("key", GOOD)
def test_bad_arguments_are_refused_by_name(key):
    answers = {case: complaint(key, name, bad) for case, name, bad in bad_cases(key)}
    failed = [f"{case} -> {answer}" for case, answer in answers.items() if answer is not None]
    assert not failed, f"{len(failed)} of {len(answers)}:\n" + "\n".join(failed)
