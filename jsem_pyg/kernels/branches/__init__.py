"""Branches of two sparse graphs compared: which pairs of nodes have alike surroundings."""
