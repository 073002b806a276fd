"""What is to be solved: both sides, their masses, the options, the objective."""
