"""Entropic transport: scalings of tables and of factored scores, and their acceleration."""
