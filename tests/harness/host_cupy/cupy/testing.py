"""``cupy.testing``: comparisons on the host."""

import numpy as np

from .creation import asnumpy


def _make(name):
    function = getattr(np.testing, name)

    def check(actual, desired, *args, **kwargs):
        function(asnumpy(actual), asnumpy(desired), *args, **kwargs)

    check.__name__ = name
    return check


assert_allclose = _make("assert_allclose")
assert_array_equal = _make("assert_array_equal")
assert_array_almost_equal = _make("assert_array_almost_equal")
