"""Arrays of CuPy while a call is traced."""
