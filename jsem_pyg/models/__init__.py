"""Models with the interfaces of PyG, the Hugging Face Hub and GraphGym.

:class:`AnisotropicGNN` is a model like PyG's own. :mod:`jsem_pyg.models.hub` (extra ``[hub]``) has
layers and models with ``save_pretrained`` and ``from_pretrained``;
:mod:`jsem_pyg.models.graphgym` registers the layer in GraphGym. Both are imported by name.
"""

from .anisotropic_gnn import AnisotropicGNN

__all__ = ["AnisotropicGNN"]
