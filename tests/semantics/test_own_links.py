"""Row 10: nobody is watched inside of Chainer's links, unless code of the user's runs there."""

import os

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L
from chainer.functions.connection import linear

from tests.harness.comparison import assert_near
from tests.tolerances import RESULTS

X = np.ones((2, 3), "f")
BYTES = {"of the system": os.urandom}  # only a profile function sees what it is


def draw():
    """Draw a number that no trace may keep."""
    return BYTES["of the system"](1)[0] / 256


class Drawing(chainer.Link):
    """A link of the user's that draws."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.W = chainer.Parameter(np.ones((12, 3), "f"))

    def forward(self, x):
        return F.linear(x, self.W) * draw()


class Asking(chainer.Variable):
    """A Variable of the user's that draws when it is asked for its number of axes."""

    @property
    def ndim(self):
        draw()
        return 2


def drawn(original):
    """A function of Chainer's in whose place the user has put another."""

    def drawing(*args, **kwargs):
        draw()
        return original(*args, **kwargs)

    return drawing


def inside():
    link = L.LSTM(3, 3)
    link.upward = Drawing()
    return link


def on_the_object():
    link = L.Linear(3, 3)
    link.forward = drawn(link.forward)
    return link


def on_the_class(monkeypatch):
    monkeypatch.setattr(L.Linear, "forward", drawn(L.Linear.forward))
    return L.Linear(3, 3)


def behind(monkeypatch):
    monkeypatch.setattr(linear, "linear", drawn(linear.linear))
    return L.Linear(3, 3)


def first_values():
    return L.Linear(None, 3, initialW=lambda array: array.fill(draw()))


def made(how, monkeypatch):
    return how(monkeypatch) if how in (on_the_class, behind) else how()


def wrapped(link):
    """A static chain around a link."""

    class Around(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.link = link

        @sdbr.static_graph
        def forward(self, x):
            return F.tanh(self.link(x))

    return Around()


@pytest.mark.parametrize("how", [inside, on_the_object, on_the_class, behind, first_values])
def test_code_of_the_users_in_a_link_of_chainers_is_watched(how, monkeypatch):
    chain = wrapped(made(how, monkeypatch))
    with pytest.warns(sdbr.SdbrWarning, match="random bytes of the system"):
        chain(X)


def test_variables_of_the_users_are_watched():
    chain = wrapped(L.Linear(3, 3))
    with pytest.warns(sdbr.SdbrWarning, match="random bytes of the system"):
        chain(Asking(X))


def test_others_are_static():
    chain = wrapped(L.LSTM(3, 3))
    plain = chain.link.copy(mode="copy")
    for _ in range(3):
        chain.link.reset_state()
        plain.reset_state()
        for _ in range(2):
            assert_near(chain(X).array, np.tanh(plain(X).array), RESULTS, "values")
    assert chain.schedule_manager.statistics.replays == 4
