"""No public call cares how its tensors lie in memory, nor whether indices have 32 bits or 64.

The tensors of every good call are laid out anew, alone and all together. What comes out is the
same, or the call is refused in the same words.
"""

import dataclasses

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from trust.draws import lay_out
from trust.good_calls import GOOD

from jsem_pyg.training import FitResult

pytestmark = pytest.mark.ci

LAYOUTS = ["transposed", "sliced", "strided", "expanded", "int32"]


def anew(value, layout):
    """(the same tensor in another layout, its numbers in the usual one), or None if it has none."""
    if isinstance(value, np.ndarray):
        pair = anew(torch.from_numpy(value), layout)
        return None if pair is None else tuple(each.numpy() for each in pair)
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or value.dim() == 0:
        return None
    if layout == "int32":
        return (value.int(), value) if value.dtype == torch.int64 else None
    laid_out = lay_out(value, layout)
    return laid_out, laid_out.contiguous().clone()


def variants(given):
    """Pairs of arguments that should make no difference, with their names and layouts.

    All tensors at once in each layout, and each tensor alone in one of them.
    """
    for layout in LAYOUTS:
        pairs = laid_out(given, layout)
        if pairs:
            changed, usual = ({name: pair[i] for name, pair in pairs.items()} for i in (0, 1))
            yield f"all {layout}", changed, usual
    for place, name in enumerate(given):
        layout = LAYOUTS[place % len(LAYOUTS)]
        for pair in laid_out({name: given[name]}, layout).values():
            yield f"{name} {layout}", {name: pair[0]}, {name: pair[1]}


def laid_out(given, layout):
    """The tensors among some arguments, as pairs of `anew`."""
    pairs = {
        name: (of_data if isinstance(value, Data) else anew)(value, layout)
        for name, value in given.items()
    }
    return {name: pair for name, pair in pairs.items() if pair is not None}


def of_data(data, layout):
    other, usual = data.clone(), data.clone()
    for key, value in data.to_dict().items():
        pair = anew(value, layout)
        # A stored index of another type is the user's affair where it is handed on as it is.
        if pair is not None and not (layout == "int32" and key != "edge_index"):
            other[key], usual[key] = pair
    return other, usual


def numbers(result):
    """All tensors and numbers in a result, in a fixed order."""
    if isinstance(result, torch.Tensor):
        return [result.detach().to_dense().double()]
    if hasattr(result, "__array__"):  # of NumPy or JAX
        result = np.array(result)
        return [torch.from_numpy(result).double()] if result.dtype.kind in "biuf" else []
    if isinstance(result, bool | int | float):
        return [torch.tensor(float(result), dtype=torch.float64)]
    if isinstance(result, torch.nn.Module):
        return [each.detach().double() for each in result.state_dict().values()]
    if isinstance(result, FitResult):
        result = result.history[0][1:3]  # a step of Adam follows signs of what is nearly zero
    if isinstance(result, Data):
        result = result.to_dict()
    if isinstance(result, dict):
        result = [result[key] for key in sorted(result)]
    if dataclasses.is_dataclass(result):
        result = list(vars(result).values())
    if isinstance(result, list | tuple):
        return [number for part in result for number in numbers(part)]
    return []


def outcome(key, chosen):
    """What a call gives, or what it says; the arguments replaced by name."""
    torch.manual_seed(0)  # of parameters
    function, given = GOOD[key]()
    try:
        return numbers(function(**{**given, **chosen})), None
    except (TypeError, ValueError, RuntimeError) as error:
        return [], str(error)


@pytest.mark.parametrize("key", GOOD)
def test_the_layout_makes_no_difference(key):
    _, given = GOOD[key]()
    for name, changed, usual in variants(given):
        (actual, said), (expected, meant) = outcome(key, changed), outcome(key, usual)
        if "int32" in name and said is not None and meant is None:
            assert "integer" in said or "int64" in said, f"{key} {name}: {said}"
            continue
        assert (said is None) == (meant is None), f"{key} {name}: {said} {meant}"
        assert len(actual) == len(expected)
        rtol = 1e-2 if key.startswith("training") else 1e-5  # of an optimiser's last step
        for one, other in zip(actual, expected, strict=True):
            torch.testing.assert_close(
                one, other, rtol=rtol, atol=1e-6, equal_nan=True, msg=f"{key} {name}: {one} {other}"
            )
