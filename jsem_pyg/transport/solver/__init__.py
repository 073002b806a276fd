"""Gromov-Wasserstein transport on factored costs, from starts over coarse cells to all points."""
