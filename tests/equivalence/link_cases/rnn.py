"""chainer.links.rnn. Stateful links step by step are in test_stateful.py."""

from __future__ import annotations

import functools

import chainer.links as L

from tests.equivalence.arguments import N

from . import make

case = functools.partial(make.case, native=True)


def steps(link, *xs):
    """Some steps from the beginning, inside one call."""
    link.reset_state()
    return [link(x) for x in xs]


def sequences(n_states):
    """A recurrent network over three sequences, from given states."""
    return lambda link, *a: link(*a[:n_states], list(a[n_states:]))


def from_zero(n_states):
    return lambda link, *xs: link(*[None] * n_states, list(xs))


XS = [N(2, 3), N(4, 3), N(1, 3)]


def n_step(name, n_states, directions=1):
    make = getattr(L, name)
    states = [N(2 * directions, 3, 4)] * n_states
    call = sequences(n_states)
    return [
        case(name, lambda: make(2, 3, 4, 0.0), [*states, *XS], call),
        case(f"{name} dropout", lambda: make(2, 3, 4, 0.4), [*states, *XS], call),
        case(f"{name} from zero", lambda: make(1, 3, 4, 0.2), XS, from_zero(n_states)),
    ]


def stateful(name, make):
    second = name != "StatefulMGU"
    return case(name, make, [N(5, 3), N(5, 3), N(5, 3)], steps, second=second)


def tree(names):
    """Which of c1, c2, h1, h2 are there."""

    def call(link, *a):
        given = iter(a)
        return link(*[next(given) if there else None for there in names], next(given))

    return call


CASES = [
    stateful("GRU", lambda: L.GRU(3, 4)),
    stateful("LSTM", lambda: L.LSTM(3, 4)),
    stateful("LSTM of unknown size", lambda: L.LSTM(4, bias_init=0.5, forget_bias_init=2)),
    stateful("StatefulGRU", lambda: L.StatefulGRU(3, 4, bias_init=0.1)),
    stateful("StatefulMGU", lambda: L.StatefulMGU(3, 4)),
    stateful("StatefulPeepholeLSTM", lambda: L.StatefulPeepholeLSTM(3, 4)),
    stateful("StatefulZoneoutLSTM", lambda: L.StatefulZoneoutLSTM(3, 4, 0.3, 0.6)),
    case("StatelessGRU", lambda: L.StatelessGRU(3, 4), [N(5, 4), N(5, 3)]),
    case("StatelessLSTM", lambda: L.StatelessLSTM(3, 4), [N(5, 4), N(5, 4), N(5, 3)]),
    case(
        "StatelessLSTM from zero",
        lambda: L.StatelessLSTM(None, 4),
        [N(5, 3)],
        lambda link, x: link(None, None, x),
    ),
    case("StatelessMGU", lambda: L.StatelessMGU(3, 4), [N(5, 4), N(5, 3)]),
    case(
        "ChildSumTreeLSTM",
        lambda: L.ChildSumTreeLSTM(3, 4),
        [*[N(5, 4)] * 4, N(5, 3)],
        second=False,
    ),
    case("ChildSumTreeLSTM leaf", lambda: L.ChildSumTreeLSTM(3, 4), [N(5, 3)]),
    case(
        "ChildSumTreeLSTM one child",
        lambda: L.ChildSumTreeLSTM(3, 4),
        [N(5, 4), N(5, 4), N(5, 3)],
        tree([True, False, True, False]),
        second=False,
    ),
    case("NaryTreeLSTM", lambda: L.NaryTreeLSTM(3, 4), [*[N(5, 4)] * 4, N(5, 3)], second=False),
    case(
        "NaryTreeLSTM leaf",
        lambda: L.NaryTreeLSTM(3, 4),
        [N(5, 3)],
        tree([False] * 4),
        second=False,
    ),
    case(
        "NaryTreeLSTM three",
        lambda: L.NaryTreeLSTM(3, 4, n_ary=3),
        [*[N(5, 4)] * 6, N(5, 3)],
        second=False,
    ),
    *n_step("NStepGRU", 1),
    *n_step("NStepBiGRU", 1, 2),
    *n_step("NStepLSTM", 2),
    *n_step("NStepBiLSTM", 2, 2),
    *n_step("NStepRNNReLU", 1),
    *n_step("NStepBiRNNReLU", 1, 2),
    *n_step("NStepRNNTanh", 1),
    *n_step("NStepBiRNNTanh", 1, 2),
]
