"""A GPU that only counts: tensors on a device that is not the CPU, whose numbers lie on the CPU.

Code that asks where a tensor lies takes the path of a GPU. Operations and Triton's kernels, in its
interpreter, run and are counted: what would be a launch, a copy from or to the host, and a wait of
the host for the device. Torch built without CUDA does not differentiate tensors on "cuda", so the
device is called "meta".
"""

from contextlib import contextmanager
from unittest import mock

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

DEVICE = torch.device("meta")
# These read numbers on the host, or return a size that depends on numbers.
WAITS = ("_local_scalar_dense", "equal", "nonzero", "is_nonzero", "masked_select", "_unique2")
ALLOCATIONS = ("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided")
FREE = ("_unsafe_view", "_reshape_alias", "lift_fresh", "set_", "resize_")

# (kind, name) in the order of the calls; kinds: "launch", "to device", "to host", "wait", and
# "late wait" for numbers that were sent to the host by a copy of their own.
events = []


class OnDevice(torch.Tensor):
    """A tensor on the pretended device."""

    is_meta = False  # it has values

    @staticmethod
    def __new__(cls, elem):
        assert not isinstance(elem, OnDevice)
        return torch.Tensor._make_wrapper_subclass(
            cls,
            elem.shape,
            strides=elem.stride(),
            storage_offset=elem.storage_offset(),
            dtype=elem.dtype,
            device=DEVICE,
        )

    def __init__(self, elem):
        self.elem = elem.detach()

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})

    def __repr__(self):
        return f"OnDevice({self.elem})"


class _Factories(TorchDispatchMode):
    """Lets new tensors be made on the pretended device, and copies to it."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})


def _run(func, args, kwargs):
    given = [each for each in tree_flatten((args, kwargs))[0] if isinstance(each, torch.Tensor)]
    was_on_device = any(isinstance(each, OnDevice) for each in given)
    device = kwargs.get("device")
    name = func._schema.name.removeprefix("aten::")
    if not was_on_device and (device is None or torch.device(device) != DEVICE):
        return func(*args, **kwargs)
    to_host = device is not None and torch.device(device) != DEVICE
    if name == "copy_":
        to_host = not isinstance(args[0], OnDevice)
    to_device = name in ("copy_", "_to_copy") and not isinstance(given[-1], OnDevice)
    if to_host:
        is_waiting = not (kwargs.get("non_blocking") or (name == "copy_" and args[2:] == (True,)))
        events.append(("wait" if is_waiting else "to host", name))
    elif to_device:
        events.append(("to device", name))
    elif name in WAITS or (name == "index" and _has_mask(args[1])):
        events.append(("wait", name))
    elif not (name in ALLOCATIONS or name in FREE or _is_view(func)):
        events.append(("launch", name))
    if device is not None:
        kwargs = kwargs | {"device": "cpu"}
    out = func(*tree_map(_numbers, args), **tree_map(_numbers, kwargs))
    if func._schema.is_mutable and args and isinstance(args[0], torch.Tensor):
        return args[0]
    return out if to_host else tree_map(on_device, out)


def _numbers(value):
    return value.elem if isinstance(value, OnDevice) else value


def on_device(value):
    """Return a tensor on the pretended device; anything else as it is."""
    is_elsewhere = isinstance(value, torch.Tensor) and not isinstance(value, OnDevice)
    return OnDevice(value) if is_elsewhere else value


def _is_view(func):
    aliases = [each.alias_info for each in func._schema.returns]
    return any(each is not None and not each.is_write for each in aliases)


def _has_mask(indices):
    return any(each is not None and each.dtype == torch.bool for each in indices)


def module_on_device(module):
    """Move parameters and buffers of a module, in place."""
    for part in module.modules():
        for name, parameter in part._parameters.items():
            if parameter is not None:
                moved = torch.nn.Parameter(OnDevice(parameter.detach()), parameter.requires_grad)
                part._parameters[name] = moved
        part._buffers.update({name: on_device(each) for name, each in part._buffers.items()})
    return module


@contextmanager
def pretended_gpu():
    """Run and count operations and Triton's kernels on the pretended device."""
    from triton.runtime import interpreter

    run = interpreter.InterpretedFunction.run

    def counted(self, *args, **kwargs):
        events.append(("launch", self.fn.__name__))
        return run(self, *tree_map(_numbers, args), **tree_map(_numbers, kwargs))

    run_kernels = mock.patch.object(interpreter.InterpretedFunction, "run", counted)
    has_autocast = mock.patch.object(torch, "is_autocast_enabled", return_value=False)
    with _Factories(), run_kernels, has_autocast:  # torch knows no autocast on "meta"
        yield


def take_events():
    """Return what was counted since the last call."""
    found = list(events)
    events.clear()
    return found
