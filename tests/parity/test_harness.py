"""The comparison itself: each kind of wrong result is found."""

import dataclasses

from sdbr.backends.numpy import executable
from sdbr.ops.table import OPS

import numpy as np
import pytest

from .harness import Case, difference, execute
from .values import blank, laid_out, values, whole


def _add_case(**options) -> Case:
    rng = np.random.default_rng(0)
    x, y = (whole(values(rng, (67,), np.dtype("f4"), "nan")) for _ in range(2))
    return Case("add", "", [x, y], [blank((67,), "f4")], **options)


def _found(case: Case, monkeypatch, formula) -> str:
    want = execute([case], "numpy")
    assert difference(case, want, execute([case], "numpy")) == ""
    ops = [dataclasses.replace(op, formula=formula) if op.name == case.op else op for op in OPS]
    monkeypatch.setattr(executable, "OPS", ops)
    return difference(case, want, execute([case], "numpy"))


@pytest.mark.parametrize(
    "formula",
    [
        lambda x, y: (x + y) * np.float32(1 + 3e-5),
        lambda x, y: np.nan_to_num(x + y),
        lambda x, y: np.where(np.arange(67) == 66, 77, x + y),  # the tail was not written
        lambda x, y: np.where(np.arange(67) == 3, np.inf, x + y),
    ],
)
def test_wrong_results(monkeypatch, formula):
    assert "output 0" in _found(_add_case(per_element=True), monkeypatch, formula)


def test_rounding_is_allowed_unless_the_op_is_exact(monkeypatch):
    def formula(x, y):
        return np.nextafter(x + y, np.float32(0))

    assert _found(_add_case(), monkeypatch, formula) == ""
    monkeypatch.undo()
    assert "expected" in _found(_add_case(exact=True), monkeypatch, formula)


def test_sign_of_zero(monkeypatch):
    zero = whole(np.array([0.0], "f4"))
    case = Case("negative", "", [zero], [blank((1,), "f4")], zero_sign=True)
    assert "expected" in _found(case, monkeypatch, lambda x: x)
    monkeypatch.undo()
    case.zero_sign = False
    assert _found(case, monkeypatch, lambda x: x) == ""


def test_changed_input(monkeypatch):
    def formula(x, y):
        x[0] += 1
        return x - [1] + y

    assert "input 0 was changed" in _found(_add_case(), monkeypatch, formula)


@pytest.mark.parametrize("layout", ["offset", "rows", "every second", "every second row"])
def test_memory_outside_the_output(layout):
    x = whole(np.ones((5, 9), "f4"))
    case = Case("negative", "", [x], [laid_out(blank((5, 9), "f4").base, layout)])
    want, got = execute([case], "numpy"), execute([case], "numpy")
    assert difference(case, want, got) == ""
    got[id(case.outs[0])].reshape(-1)[0] = 0  # a gap in three of the four
    if layout != "every second":
        assert "outside" in difference(case, want, got)
    got = execute([case], "numpy")
    got[id(case.outs[0])].reshape(-1)[-1] = 0
    found = difference(case, want, got)
    assert "expected" in found if layout in ("offset", "every second row") else "outside" in found
