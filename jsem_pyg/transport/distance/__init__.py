"""The objective at its optimum as a differentiable function."""
