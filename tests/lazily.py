"""Packages that few tests need and that take seconds to import: imported at their first use."""

import pytest


class Lazily:
    """The module of a name, whose first use imports it, or skips the test where it is missing."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, attribute):
        if attribute.startswith(("_", "pytest")):  # what pytest looks for in all that it collects
            raise AttributeError(attribute)
        reason = f"needs {self._name}, of the extra [test]"
        return getattr(pytest.importorskip(self._name, reason=reason), attribute)
