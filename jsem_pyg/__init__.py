"""jsem_pyg."""
