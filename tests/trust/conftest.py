"""Scripts that are not for pytest to import."""

collect_ignore = ["mutation.py"]
