"""Whether hooks see the calls of a module, so that it has to be called as one."""

from torch.nn import Module
from torch.nn.modules import module as torch_module

_HOOKS = ("forward", "forward_pre", "backward", "backward_pre")


def has_hooks(module: Module) -> bool:
    """True if a call of the module runs hooks, its own or those of all, or another `forward`."""
    hooks = [each for kind in _HOOKS for each in getattr(module, f"_{kind}_hooks").values()]
    # By its own hook a lazy map of PyG learns its width, which does no harm.
    own = getattr(module, "initialize_parameters", None)
    return (
        "forward" in module.__dict__
        or any(each != own for each in hooks)
        or any(getattr(torch_module, f"_global_{kind}_hooks") for kind in _HOOKS)
    )
