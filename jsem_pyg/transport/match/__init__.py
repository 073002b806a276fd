"""Graphs compared by their edges: matching nodes one to one."""
