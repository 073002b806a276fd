"""Imports Faiss on first use, since that takes long."""

from typing import Any


def import_faiss() -> Any:
    """Import Faiss."""
    import faiss

    return faiss
