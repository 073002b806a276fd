"""Writes a fitted graph as one HTML file that a browser shows, without a network."""

from .findings import Findings
from .report import report

__all__ = ["Findings", "report"]
