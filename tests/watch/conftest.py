"""No trace function while these tests run, such as that of a measured coverage; state is reset."""

from __future__ import annotations

import decimal
import os
import sys

import chainer
import numpy as np
import pytest


@pytest.fixture(autouse=True)
def no_trace_function():
    own = sys.gettrace()
    sys.settrace(None)
    yield
    sys.settrace(own)


@pytest.fixture(autouse=True)
def state_of_libraries():
    """Is as before after each test."""
    errors, options, argv = np.geterr(), np.get_printoptions(), list(sys.argv)
    with decimal.localcontext():
        yield
    np.seterr(**errors)
    np.set_printoptions(**options)
    sys.argv[:] = argv
    os.environ.pop("SDBR_TEST_OUTSIDE", None)
    sys.modules.pop("sdbr_test_outside", None)
    vars(chainer.config._local).pop("user_k", None)
