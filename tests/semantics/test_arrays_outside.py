"""Row 8: arrays outside of links, however they lie in memory, show what is written to them."""

from __future__ import annotations

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.models import Net
from tests.harness.twins import X, agree, pair

#: What is written to, and what the call computes with, of three columns.
LAYOUTS = {
    "transposed": lambda: _with(np.zeros((3, 2), "f"), lambda a: a.T),
    "in Fortran's order": lambda: _with(np.zeros((2, 3), "f", order="F"), lambda a: a[:]),
    "every second row": lambda: _with(np.zeros((4, 3), "f"), lambda a: a[::2]),
    "backwards": lambda: _with(np.zeros((2, 3), "f"), lambda a: a[::-1, ::-1]),
    "backwards, transposed": lambda: _with(np.zeros((3, 4), "f"), lambda a: a.T[::-2][:2]),
    "broadcast": lambda: _with(np.zeros(3, "f"), lambda a: np.broadcast_to(a, (2, 3))),
    "a column": lambda: _with(np.zeros((3, 5), "f"), lambda a: a[:, 2]),
    "large": lambda: _with(np.zeros((200, 500), "f"), lambda a: a.T[:2, :3]),
    "a field": lambda: _with(np.zeros(6, [("a", "f4"), ("b", "i4")]), lambda a: a["a"][:3]),
    "an odd field": lambda: _with(np.zeros(6, [("a", "f4"), ("b", "i1")]), lambda a: a["a"][:3]),
    "real parts": lambda: _with(np.zeros((2, 3), "F"), lambda a: a.real),
}
#: These are compared, and traced again.
COPIED = {"an odd field"}


def _with(base, view):
    return base, view(base)


USES = {
    "an operand": lambda self, x, w: F.sum(F.tanh(self.l(x))) + w,
    "a product": lambda self, x, w: F.matmul(self.l(x), w, transb=w.shape == (2, 3)),
    "a view": lambda self, x, w: F.transpose(chainer.as_variable(w)),
    "all of it": lambda self, x, w: chainer.as_variable(w),
}


@pytest.mark.parametrize("place", ["a variable", "a list"])
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_written_to_is_seen(layout, use, place):
    base, w = LAYOUTS[layout]()
    assert not (w.flags.c_contiguous and w.flags.aligned)
    outside, compute = [w], USES[use]

    def forward(self, x):
        return compute(self, x, w if place == "a variable" else outside[0])

    plain, static = pair(lambda: Net(forward, l=L.Linear(4, 3)))
    for i in range(6):
        target = base["a"] if base.dtype.names else base
        target += np.arange(target.size, dtype="f").reshape(target.shape) - i
        agree(plain, static, X)
    statistics = static.schedule_manager.statistics
    if layout not in COPIED:
        assert statistics.traces - statistics.second_traces == 1
        assert statistics.replays >= 4
    assert statistics.python_ops == 0
