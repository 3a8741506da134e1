"""Functions of NumPy as they are now: while a call is traced, others are in their place."""

from numpy import array, asarray, empty, zeros

__all__ = ["array", "asarray", "empty", "zeros"]
