"""Effects of the user's function nodes happen once, whether a call is audited or not."""

from __future__ import annotations

from unittest import mock

import sdbr

import chainer
import numpy as np
import pytest

from tests.harness.hidden import hidden
from tests.tolerances import RESULTS, ROUNDINGS

from .harness import FOLDER, judge, names_in

PATH = FOLDER / "telling.py"


@pytest.mark.parametrize("audit", ["off", "auto", 1e9])
@pytest.mark.parametrize("name", names_in(PATH))
def test_program(name, audit):
    verdict = judge(PATH, name, audit)
    assert verdict.word == "right", verdict
    assert not any("differs" in text for text in verdict.warnings)


def test_without_the_mend():
    """Audited calls print twice where nodes simply run in both runs."""
    with mock.patch("sdbr.audit.told.is_of_users", lambda function: False):
        assert judge(PATH, "p_01_prints_steps", 1e9).word == "silent"


class Scaled(chainer.FunctionNode):
    """Prints, and multiplies with what it was made with."""

    def __init__(self, by):
        self.by = by

    def forward(self, inputs):
        print("forward")
        return (inputs[0] * self.by,)

    def backward(self, indexes, gys):
        return (gys[0] * self.by,)


def outer_of(before):
    """Two nodes that print, the second on what native ops made of the first."""

    def outer(x):
        h = chainer.functions.tanh(before(x))
        return Scaled(np.float32(3)).apply((h,))[0]

    return outer


def test_all_calls_print_once(capsys):
    static = sdbr.static_graph(outer_of(lambda x: Scaled(np.float32(2)).apply((x,))[0]))
    with chainer.using_config("sdbr_audit", 1e9):
        for i in range(5):
            x = chainer.Variable(np.full((2, 3), 0.1 * i, "f"))
            y = static(x)
            np.testing.assert_allclose(y.array, 3 * np.tanh(2 * x.array), rtol=ROUNDINGS)
            chainer.functions.sum(y).backward()
            np.testing.assert_allclose(x.grad, 6 * (1 - np.tanh(2 * x.array) ** 2), rtol=RESULTS)
    assert capsys.readouterr().out.split() == ["forward"] * 10
    audits = static.schedule_manager.audits
    assert audits.passed == 4
    assert not audits.failed
    assert static.schedule_manager.statistics.replays == 4


def test_what_such_a_node_is_given_is_compared(capsys):
    """A node that does not run again hides nothing of what came before it."""
    factor = [1.0]
    unseen = hidden(factor)
    static = sdbr.static_graph(outer_of(lambda x: x * unseen()))
    with chainer.using_config("sdbr_audit", 1e9), pytest.warns(sdbr.SdbrWarning) as caught:
        for i in range(4):
            factor[0] = i + 1
            y = static(chainer.Variable(np.full((2, 3), 0.1, "f")))
            np.testing.assert_allclose(y.array, 3 * np.tanh(0.1 * (i + 1)), rtol=RESULTS)
    assert any("differs from define-by-run" in str(w.message) for w in caught)
    assert capsys.readouterr().out.split() == ["forward"] * 4
