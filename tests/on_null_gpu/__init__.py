"""CuPy itself where there is no GPU: what it can be asked without numbers."""
