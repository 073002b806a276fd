"""The problem: both sides, their masses, the options, the objective."""
