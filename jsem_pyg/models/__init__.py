"""Models with the interfaces of PyG and the Hugging Face Hub.

:class:`AnisotropicGNN` is a model like PyG's own. :mod:`jsem_pyg.models.hub` (extra ``[hub]``) has
layers and models with ``save_pretrained`` and ``from_pretrained``; import it by name.
"""

from .anisotropic_gnn import AnisotropicGNN

__all__ = ["AnisotropicGNN"]
