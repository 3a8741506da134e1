"""Libraries of CUDA, as CuPy calls them: cuRAND alone."""
