"""Small programs around backwards, run define-by-run and static; what they note is compared."""

from __future__ import annotations

from collections.abc import Callable

import sdbr

import chainer
import numpy as np
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import assert_near, copy_of
from tests.tolerances import SUMS

ROUNDS = 5


class Net(chainer.Chain):
    """Two layers; what is between them is handed out in an attribute."""

    def __init__(self, n_in=4, n_out=3):
        super().__init__()
        with self.init_scope():
            self.l1, self.l2 = L.Linear(n_in, 6), L.Linear(6, n_out)

    def forward(self, x):
        self.h = F.tanh(self.l1(x))
        return self.l2(self.h)


class Way:
    """What a program gets: a decorator that is sdbr's or does nothing, numbers, and a note book."""

    def __init__(self, is_static: bool):
        self.is_static = is_static
        self.rng = np.random.RandomState(2)
        self.targets: list = []
        self.links: list[chainer.Link] = []
        self.seen: list = []

    def static(self, target, **options):
        if isinstance(target, chainer.Link):
            self.links.append(target)
        if self.is_static:
            target = sdbr.static_graph(target, **options)
            self.targets.append(target)
        return target

    def x(self, *shape):
        return self.rng.randn(*(shape or (5, 4))).astype("f")

    def t(self):
        return self.rng.randint(0, 3, 5).astype("i")

    def see(self, *things):
        """Note things, and all of the parameters and their gradients."""
        self.seen += [of(thing) for thing in things]
        for link in self.links:
            for path, p in sorted(link.namedparams()):
                holder = p._grad_var
                self.seen += [path, *of(p), p._loss_scale, p._grad_valid]
                if holder is not None:
                    self.seen += [type(holder).__name__, holder.array is p._grad]
                    self.seen += [holder.creator is None, p._grad.flags.writeable]
                elif p._grad is not None:  # one is made when somebody asks for it
                    self.seen += [chainer.Variable.__name__, True, True, p._grad.flags.writeable]
        self.seen.append(chainer.config.enable_backprop)

    def count(self, name: str) -> int:
        return sum(getattr(f.schedule_manager.statistics, name) for f in self.targets)


def of(thing):
    """A copy that can be compared."""
    if isinstance(thing, chainer.Variable):
        return [copy_of(thing.array), copy_of(thing._grad)]
    return thing.copy() if isinstance(thing, np.ndarray) else thing


def assert_same(got, want, where: str) -> None:
    if isinstance(want, np.ndarray):
        assert_near(got, want, SUMS, where)
    elif isinstance(want, (list, tuple)):
        assert len(got) == len(want), where
        for i, (g, w) in enumerate(zip(got, want, strict=True)):
            assert_same(g, w, f"{where}.{i}")
    else:
        assert got == want and type(got) is type(want), where


def programs() -> tuple[Callable, dict]:
    """A decorator that notes programs, and the table that it fills.

    Its arguments are how many backwards are compiled (None where that depends on what other
    threads do meanwhile), and whether calls are replayed.
    """
    table: dict = {}

    def program(compiled: int | None = ROUNDS - 1, replayed: bool = True):
        def note(run):
            table[run.__name__] = run, compiled, replayed
            return run

        return note

    return program, table


def run(of_user, is_static: bool) -> Way:
    np.random.seed(0)
    way = Way(is_static)
    with chainer.using_config("sdbr_audit", "off"):
        of_user(way)
    return way


def check(name: str, of_user, compiled: int | None, replayed: bool) -> None:
    """A program sees the same in both ways; its backwards were compiled as often as it says."""
    want, got = run(of_user, False), run(of_user, True)
    assert_same(got.seen, want.seen, name)
    assert (got.count("replays") > 0) == replayed
    n = got.count("compiled_backwards")
    assert n == compiled if compiled is not None else n > 0
