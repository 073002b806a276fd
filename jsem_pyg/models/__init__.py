"""Models with the interface of PyG's own.

:class:`AnisotropicGNN` is a model like PyG's `GCN`, of our layers.
"""

from .anisotropic_gnn import AnisotropicGNN

__all__ = ["AnisotropicGNN"]
