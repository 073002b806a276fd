"""Whether hooks see the calls of a module, so that it has to be called as one."""

from torch.nn import Module
from torch.nn.modules import module as torch_module

_HOOKS = ("forward", "forward_pre", "backward", "backward_pre")


def has_hooks(module: Module) -> bool:
    """True if a call of the module runs hooks: its own, or those of all modules."""
    hooks = [getattr(module, f"_{each}_hooks") for each in _HOOKS]
    return any(hooks) or any(getattr(torch_module, f"_global_{each}_hooks") for each in _HOOKS)
