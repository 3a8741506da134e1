"""SciPy's functions on the look-alike's arrays."""

from . import linalg, special


def get_array_module(*args):
    import cupy
    import scipy

    import cupyx.scipy

    return cupyx.scipy if cupy.get_array_module(*args) is cupy else scipy


__all__ = ["get_array_module", "linalg", "special"]
