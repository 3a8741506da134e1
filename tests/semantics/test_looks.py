"""``sdbr.print`` and ``sdbr.check_finite``: in every run, in whole steps, as outside of calls."""

import io

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.tolerances import ELEMENTS, ROUNDINGS

T = np.array([0, 1], "i")


def batch(i):
    return np.random.RandomState(i).randn(2, 3).astype("f")


class Net(chainer.Chain):
    def __init__(self, look):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(3, 2, initialW=np.ones((2, 3), "f"))
        self.look = look

    def forward(self, x, t):
        h = self.l(x)
        self.look(h)
        return F.softmax_cross_entropy(F.relu(h), t)


def static(look):
    net = sdbr.static_graph(Net(look))
    return net, sdbr.static_optimizer(chainer.optimizers.SGD(0.1)).setup(net)


def printing(h):
    sdbr.print("h", h, h.array.max(), h.shape, sep=" | ", end=" !\n")


def test_print_in_whole_steps(capsys):
    """Each step prints its own numbers; those of define-by-run."""
    net, optimizer = static(printing)
    plain = Net(printing)
    other = chainer.optimizers.SGD(0.1).setup(plain)
    for i in range(6):
        optimizer.update(net, batch(i), T)
    mine = capsys.readouterr().out
    for i in range(6):
        other.update(plain, batch(i), T)
    theirs = capsys.readouterr().out
    assert mine.count(" | (2, 2) !\n") == 6 and len(set(mine.split("!"))) == 7

    def numbers(text):
        kept = "".join(c if c in "0123456789.-e" else " " for c in text.replace("h |", ""))
        return np.array(kept.split(), "d")

    np.testing.assert_allclose(numbers(mine), numbers(theirs), rtol=ELEMENTS, atol=ROUNDINGS)
    statistics = net.schedule_manager.statistics
    assert (statistics.traces, statistics.steps, statistics.python_ops) == (1, 5, 5)


def test_print_to_a_file_and_outside_of_calls(capsys):
    file = io.StringIO()
    call = sdbr.static_graph(lambda x: (sdbr.print("x", x, file=file), x * 2)[1])
    for i in range(4):
        call(np.full(2, i, "f"))
    assert file.getvalue() == "".join(f"x [{i}. {i}.]\n" for i in range(4))
    assert call.schedule_manager.statistics.replays == 3
    sdbr.print("plain", chainer.Variable(np.ones(2, "f")), 0.5)
    assert capsys.readouterr().out == "plain [1. 1.] 0.5\n"


def checking(h):
    assert sdbr.check_finite(h, "h") is h


def printing_before(h):
    sdbr.print(h.shape)
    sdbr.check_finite(h, "h")


@pytest.mark.parametrize(
    ("look", "python_ops"), [(checking, 0), (printing_before, 2)], ids=["asks", "runs code"]
)
def test_check_finite_in_whole_steps(look, python_ops):
    """NaN is an error that names it; nothing is updated, and later steps go on."""
    net, optimizer = static(look)
    for i in range(4):
        optimizer.update(net, batch(i), T)
    statistics = net.schedule_manager.statistics
    assert (statistics.traces, statistics.steps) == (1, 3)
    assert statistics.python_ops == 3 * python_ops
    before = net.l.W.array.copy()
    for bad in (np.nan, np.inf, -np.inf):
        x = batch(9)
        x[1, 2] = bad
        with pytest.raises(FloatingPointError) as caught:
            optimizer.update(net, x, T)
        told = str(caught.value).splitlines()[0]  # before Python 3.11 the place follows
        assert told == (
            "h (float32[2, 2]): 2 of 4 numbers are not finite, the first at (1, 0): "
            f"{np.float32(bad)}"
        )
        assert (net.l.W.array == before).all() and optimizer.t == 4
    optimizer.update(net, batch(5), T)
    assert statistics.steps == 4 and (net.l.W.array != before).any()


def test_check_finite_outside_of_calls():
    x = np.array([1, np.inf], "f")
    with pytest.raises(FloatingPointError, match=r"x \(float32\[2\]\): 1 of 2 .* at \(1,\): inf"):
        sdbr.check_finite(x)
    assert sdbr.check_finite(x[:1]) is not None
    for harmless in (np.arange(3), np.zeros(0, "f"), chainer.Variable(np.ones(2, "f"))):
        assert sdbr.check_finite(harmless) is harmless
    with pytest.raises(TypeError, match="x: expected a Variable or an array, got list"):
        sdbr.check_finite([1.0])


def test_names_that_are_not_exported_by_a_star():
    """``from sdbr import *`` leaves the builtin alone."""
    names = {}
    exec("from sdbr import *", names)
    assert "check_finite" in names and "print" not in names
