import pytest


@pytest.fixture(autouse=True)
def _apart(tmp_path, monkeypatch):
    """Each test in a folder of its own, with a cache of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JSEM_PYG_CACHE", str(tmp_path / "cache"))
