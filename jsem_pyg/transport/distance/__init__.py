"""The objective at its optimum as a differentiable function, as a loss and for barycentres."""
