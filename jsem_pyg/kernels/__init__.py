"""Fast paths. They know tensors (CSR patterns, columns, coefficients), not graphs or layers."""
