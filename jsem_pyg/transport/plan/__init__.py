"""The transport plan and what is read from it."""
