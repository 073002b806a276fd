"""Pairs of nodes with the largest scores, from the likely partners of their neighbours."""
