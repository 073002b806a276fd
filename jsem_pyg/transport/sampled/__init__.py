"""Costs without a small factor, known by some of their columns."""
