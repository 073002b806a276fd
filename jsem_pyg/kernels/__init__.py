"""Fast kernels on tensors: CSR patterns, columns, coefficients. They import no graph or layer."""
