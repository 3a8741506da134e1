"""Errors while an audit compares gradients: those of define-by-run, and those of the audit."""

from __future__ import annotations

from unittest import mock

import sdbr
from sdbr.audit.gradients import gradients

import chainer
import chainer.functions as F
import numpy as np
import pytest


class Fails(chainer.FunctionNode):
    """Raises in its backward when it is told to."""

    now = False

    def forward(self, inputs):
        return (inputs[0] * 2,)

    def backward(self, indexes, gys):
        if Fails.now:
            raise TypeError("the backward of a user")
        return (gys[0] * 2,)


def calls(static, n: int = 4):
    with chainer.using_config("sdbr_audit", 1e9):
        for i in range(n):
            x = chainer.Variable(np.full((2, 3), i + 1, "f"))
            F.sum(static(x)).backward()
            np.testing.assert_allclose(x.grad, 2 * np.exp(2 * x.array), rtol=1e-5)


def doubled(x):
    return F.exp(Fails().apply((x,))[0])


@pytest.mark.parametrize("name", ["things_of", "_facts"])
def test_mistakes_around_the_backward_are_raised(name):
    static = sdbr.static_graph(doubled)
    calls(static, 1)
    wrong = mock.patch(f"sdbr.audit.gradients.{name}", side_effect=TypeError("a mistake of ours"))
    with wrong, pytest.raises(TypeError, match="a mistake of ours"):
        calls(static)


def test_mistakes_beside_the_backward_are_told():
    """Where errors of define-by-run are expected as well."""
    static = sdbr.static_graph(doubled)
    calls(static, 1)
    with (
        mock.patch("sdbr.audit.gradients.gradients", _mistaken),
        pytest.warns(sdbr.SdbrWarning, match=r"could not compare the gradients.*a mistake of ours"),
    ):
        calls(static)
    audits = static.schedule_manager.audits
    assert audits.inconclusive == 4
    assert not audits.gradients
    assert static.schedule_manager.statistics.replays == 4


def _mistaken(ys, xs, gys, inputs, others=(), more=None):
    gradients(ys, xs, gys, inputs, others, more)
    raise TypeError("a mistake of ours")


def test_a_wrong_use_of_chainer_surfaces():
    """An error of chainer.grad itself, which no function has raised."""
    static = sdbr.static_graph(doubled)
    calls(static, 1)

    def misused(ys, xs, gys, inputs, others=(), more=None):
        return chainer.grad(ys[0], xs, gys)

    with (
        mock.patch("sdbr.audit.gradients.gradients", misused),
        pytest.warns(sdbr.SdbrWarning, match="could not compare the gradients"),
    ):
        calls(static)


def test_errors_of_define_by_run_are_inconclusive(recwarn):
    """One that the backward of a function raises, there alone, tells nothing of the replay."""
    static = sdbr.static_graph(doubled)
    calls(static, 1)

    def failing(*args):
        Fails.now = True
        try:
            return gradients(*args)
        finally:
            Fails.now = False

    with mock.patch("sdbr.audit.gradients.gradients", failing):
        calls(static)
    assert static.schedule_manager.audits.inconclusive == 4
    assert not [w for w in recwarn if issubclass(w.category, sdbr.SdbrWarning)]


def test_errors_of_both_reach_the_user():
    """The error of the user's own backward, as in define-by-run."""
    static = sdbr.static_graph(doubled)
    calls(static, 2)
    with chainer.using_config("sdbr_audit", 1e9), mock.patch.object(Fails, "now", True):
        x = chainer.Variable(np.ones((2, 3), "f"))
        y = F.sum(static(x))
        with pytest.raises(TypeError, match="the backward of a user"):
            y.backward()
    calls(static, 2)
