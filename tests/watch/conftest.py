"""No trace function while these tests run, such as that of a measured coverage."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(autouse=True)
def no_trace_function():
    own = sys.gettrace()
    sys.settrace(None)
    yield
    sys.settrace(own)
