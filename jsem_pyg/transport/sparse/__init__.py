"""Graphs too large for all pairs of their nodes: a few candidate partners for each node.

`profiles` describes nodes by their surroundings in time proportional to the edges, `candidates`
finds nodes of similar profiles, and `search` refines soft assignments along edges.
"""
