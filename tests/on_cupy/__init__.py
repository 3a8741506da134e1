"""Tests with arrays of CuPy: see tests/test_on_cupy.py."""
