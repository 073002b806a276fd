"""Layers and models with `save_pretrained`, `from_pretrained` and `push_to_hub` (extra ``[hub]``).

A class is its namesake in :mod:`jsem_pyg.nn` or :mod:`jsem_pyg.models` with Hugging Face's
`PyTorchModelHubMixin`: a folder of ``model.safetensors``, ``config.json`` (the arguments of the
constructor) and a model card, ``README.md``. Nothing is pickled, and a folder needs no network. The
header of the weights has the name of the class and a hash of weights and arguments, so that damage,
files that do not belong together and models of another class are refused.
"""

import json
import os
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from .. import nn
from .._extras import import_optional
from .._files import write_whole
from .._tensor_file import tensors_hash
from .anisotropic_gnn import AnisotropicGNN as _AnisotropicGNN

hub = import_optional("huggingface_hub", "jsem_pyg.models.hub")

__all__ = [
    "AnisotropicChebConv",
    "AnisotropicDiffusion",
    "AnisotropicGNN",
    "DiffusionClassifier",
    "HypergraphChebConv",
    "HypergraphDiffusion",
    "SimplicialDiffusion",
]

_HEADER = "jsem_pyg"  # the entry of the header for class and hash

_CARD = """---
{{ card_data }}
---

# A {{ name }} of jsem_pyg

Learned anisotropic heat diffusion on graphs, for PyTorch Geometric.

```python
from jsem_pyg.models.hub import {{ name }}

model = {{ name }}.from_pretrained("FOLDER_OR_REPOSITORY")
```

Weights are in `model.safetensors`, the arguments of the constructor in `config.json`.
"""


class _Shared(hub.PyTorchModelHubMixin):  # type: ignore[name-defined]
    """Saves all arguments or refuses to; reads safetensors alone, and all of it."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        ours = {
            "library_name": "jsem_pyg",
            "tags": ["torch-geometric", "graph-machine-learning"],
            "model_card_template": _CARD,
            "coders": {torch.Tensor: (torch.Tensor.tolist, torch.tensor)},  # not inherited
        }
        super().__init_subclass__(**(ours | kwargs))

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        self: Self = super().__new__(cls, *args, **kwargs)
        names = list(cls._hub_mixin_init_parameters)[1:]
        given = dict(zip(names, args, strict=False)) | kwargs
        self._left_out = [name for name, each in given.items() if not cls._is_jsonable(each)]
        return self

    def save_pretrained(self, save_directory: str | os.PathLike[str], **kwargs: Any) -> str | None:
        """Write weights, arguments and a model card to a folder.

        Raises:
            TypeError: if an argument of the constructor is not a plain value, such as a module.
        """
        if self._left_out:
            raise TypeError(
                f"Expected arguments that a file can hold: numbers, texts, lists, tensors (got "
                f"others for {self._left_out}). To fix this error, make them in the "
                "__init__ of a class of your own, or save the state_dict."
            )
        if "num_classes" in self._hub_mixin_config:  # which training may have chosen
            self._hub_mixin_config["num_classes"] = self.num_classes
        return super().save_pretrained(save_directory, **kwargs)

    def generate_model_card(self, **kwargs: Any) -> Any:
        """Make the model card, with the name of the class."""
        return super().generate_model_card(name=type(self).__name__, **kwargs)

    def _save_pretrained(self, save_directory: Path) -> None:
        from safetensors.torch import save

        # A time that two layers share is written twice.
        tensors = {name: each.clone().contiguous() for name, each in self.state_dict().items()}
        note = {"class": type(self).__name__, "hash": _hash(tensors, self._hub_mixin_config)}
        content = save(tensors, {"format": "pt", _HEADER: json.dumps(note)})
        path = save_directory / hub.constants.SAFETENSORS_SINGLE_FILE
        write_whole(path, lambda file: file.write(content))

    @classmethod
    def from_pretrained(cls, pretrained_model_name_or_path: Any, **kwargs: Any) -> Self:
        """Read what :meth:`save_pretrained` wrote, from a folder or the Hub.

        Raises:
            FileNotFoundError: if a file is missing.
            ValueError: if a file is damaged, belongs to others, or holds another class, or for
                times `t`: they are among the weights.
        """
        for name in {"t", "t_up"} & set(kwargs):
            raise ValueError(
                f"Expected no '{name}', since the times are among the weights that are read (got "
                f"{kwargs[name]!r}). To fix this, set them in the model: `time.set` of each layer."
            )
        try:
            read: Self = super().from_pretrained(pretrained_model_name_or_path, **kwargs)
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise _damaged(pretrained_model_name_or_path) from error
        return read

    @classmethod
    def _from_pretrained(
        cls, *, model_id: str, map_location: str = "cpu", strict: bool = True, **kwargs: Any
    ) -> Self:
        names = "revision", "cache_dir", "force_download", "local_files_only", "token"
        where = {name: kwargs.pop(name) for name in names}

        def find(name: str) -> Path:
            path = Path(model_id) / name
            if not path.parent.is_dir():
                return Path(hub.hf_hub_download(repo_id=model_id, filename=name, **where))
            if not path.is_file():
                raise FileNotFoundError(
                    f"Expected 'model_id' to be a folder with {name} (got '{model_id}', which has "
                    "none)."
                )
            return path

        weights = find(hub.constants.SAFETENSORS_SINGLE_FILE)
        state = _read(weights, find(hub.constants.CONFIG_NAME), cls.__name__, model_id)
        model = cls(**kwargs)
        precisions = {each.dtype for each in state.values() if each.is_floating_point()}
        if len(precisions) == 1:
            model.to(precisions.pop())  # else loading would round to the type of a new model
        model.load_state_dict(state, strict=strict)
        return model.to(map_location).eval()


def _read(weights: Path, config: Path, name: str, model_id: str) -> dict[str, Tensor]:
    """Read the weights, if they and the arguments are as a class of this name wrote them."""
    from safetensors import safe_open

    try:
        with safe_open(weights, "pt") as file:
            state = {each: file.get_tensor(each) for each in file.keys()}  # noqa: SIM118
            note = json.loads(file.metadata()[_HEADER])
        found, is_whole = (
            note["class"],
            note["hash"] == _hash(state, json.loads(config.read_text())),
        )
    except Exception as error:  # arbitrary bytes may raise any
        raise _damaged(model_id) from error
    if not is_whole:
        raise _damaged(model_id)
    if found != name:
        raise ValueError(
            f"Expected '{model_id}' to hold a {name} (got a {found}). To fix this, call "
            f"{found}.from_pretrained."
        )
    return state


def _hash(tensors: dict[str, Tensor], arguments: Any) -> str:
    text = json.dumps(arguments, sort_keys=True).encode()
    return tensors_hash({**tensors, "": torch.frombuffer(bytearray(text), dtype=torch.uint8)})


def _damaged(place: object) -> ValueError:
    return ValueError(
        f"Expected '{place}' to hold what `save_pretrained` wrote (got files that are damaged or "
        "were not written together). To fix this, save the model anew; weights alone are read by "
        "`load_state_dict`."
    )


class AnisotropicChebConv(_Shared, nn.AnisotropicChebConv):
    """:class:`jsem_pyg.nn.AnisotropicChebConv`, with `save_pretrained` and `from_pretrained`."""


class AnisotropicDiffusion(_Shared, nn.AnisotropicDiffusion):
    """:class:`jsem_pyg.nn.AnisotropicDiffusion`, with `save_pretrained` and `from_pretrained`."""


class HypergraphChebConv(_Shared, nn.HypergraphChebConv):
    """:class:`jsem_pyg.nn.HypergraphChebConv`, with `save_pretrained` and `from_pretrained`."""


class HypergraphDiffusion(_Shared, nn.HypergraphDiffusion):
    """:class:`jsem_pyg.nn.HypergraphDiffusion`, with `save_pretrained` and `from_pretrained`."""


class SimplicialDiffusion(_Shared, nn.SimplicialDiffusion):
    """:class:`jsem_pyg.nn.SimplicialDiffusion`, with `save_pretrained` and `from_pretrained`."""


class DiffusionClassifier(_Shared, nn.DiffusionClassifier):
    """:class:`jsem_pyg.nn.DiffusionClassifier` with `save_pretrained`; `fit` trains it as well."""


class AnisotropicGNN(_Shared, _AnisotropicGNN):
    """:class:`jsem_pyg.models.AnisotropicGNN`, with `save_pretrained` and `from_pretrained`."""
