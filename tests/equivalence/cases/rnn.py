"""chainer.functions.rnn and chainer.functions.util."""

from __future__ import annotations

import chainer.functions as F

from tests.equivalence.arguments import N
from tests.equivalence.harness import Case, native

GATES = {"lstm": 8, "gru": 6, "rnn": 2}
LENGTHS = (3, 2, 2)  # sequences per step: the longest has three steps


def _parts(kind):
    """Directions, weights per layer and direction, whether there is a cell."""
    cell = kind.removeprefix("bi")
    return 2 if kind.startswith("bi") else 1, GATES[cell], cell == "lstm"


def _n_step_inputs(kind, layers, n_in=3, n_out=2):
    directions, gates, cell = _parts(kind)
    inputs = [N(layers * directions, LENGTHS[0], n_out)] * (1 + cell)
    for layer in range(layers):
        width = n_in if layer == 0 else n_out * directions
        for _ in range(directions):
            half = gates // 2
            inputs += [N(n_out, width)] * half + [N(n_out, n_out)] * half + [N(n_out)] * gates
    return [*inputs, *[N(n, n_in) for n in LENGTHS]]


def _n_step(kind, layers, ratio, **options):
    """``F.n_step_*`` on flat arguments."""
    directions, gates, cell = _parts(kind)
    function = getattr(F, f"n_step_{kind}")

    def call(*flat):
        flat = list(flat)
        states = [flat.pop(0) for _ in range(1 + cell)]
        xs = flat[-len(LENGTHS) :]
        del flat[-len(LENGTHS) :]
        ws, bs = [], []
        for _ in range(layers * directions):
            ws.append([flat.pop(0) for _ in range(gates)])
            bs.append([flat.pop(0) for _ in range(gates)])
        assert not flat
        return function(layers, ratio, *states, ws, bs, xs, **options)

    return call


CELLS = [
    ("lstm", F.lstm, [N(3, 2), N(3, 8)]),
    ("lstm fewer rows", F.lstm, [N(3, 2), N(2, 8)]),
    ("lstm no rows", F.lstm, [N(3, 2), N(0, 8)]),
    ("lstm one", F.lstm, [N(1, 1), N(1, 4)]),
    ("lstm cell only", lambda c, x: F.lstm(c, x)[0], [N(3, 2), N(2, 8)]),
    ("lstm output only", lambda c, x: F.lstm(c, x)[1], [N(3, 2), N(2, 8)]),
    ("lstm of images", F.lstm, [N(3, 2, 3, 2), N(2, 8, 3, 2)]),
    ("lstm of views", lambda c, x: F.lstm(c.T, x.T), [N(2, 3), N(8, 3)]),
    ("lstm many", F.lstm, [N(5, 37), N(5, 148)]),
    ("slstm", F.slstm, [N(3, 2), N(3, 2), N(3, 8), N(3, 8)]),
    ("slstm of images", F.slstm, [N(3, 2, 2), N(3, 2, 2), N(3, 8, 2), N(3, 8, 2)]),
    ("slstm many", F.slstm, [N(3, 37), N(3, 37), N(3, 148), N(3, 148)]),
    ("slstm output only", lambda *a: F.slstm(*a)[1], [N(3, 2), N(3, 2), N(3, 8), N(3, 8)]),
    ("tree_lstm", F.tree_lstm, [N(3, 2), N(3, 2), N(3, 10)]),
    ("tree_lstm three", F.tree_lstm, [N(3, 2), N(3, 2), N(3, 2), N(3, 12)]),
    ("tree_lstm one", F.tree_lstm, [N(3, 70), N(3, 280)]),
    ("tree_lstm cell only", lambda *a: F.tree_lstm(*a)[0], [N(3, 2), N(3, 2), N(3, 10)]),
]

CASES = [
    *native(CELLS),
    *[
        Case(
            f"n_step_{kind}{label}",
            _n_step(kind, layers, ratio),
            _n_step_inputs(kind, layers),
            native=True,
        )
        for kind in ("lstm", "bilstm", "gru", "bigru", "rnn", "birnn")
        for label, layers, ratio in [("", 1, 0.0), (" two layers, dropout", 2, 0.4)]
    ],
    Case(
        "n_step_rnn relu",
        _n_step("rnn", 1, 0.0, activation="relu"),
        _n_step_inputs("rnn", 1),
        native=True,
    ),
    Case(
        "forget",
        lambda x, y: F.forget(lambda a, b: F.tanh(a) * b, x, y),
        [N(3, 4), N(3, 4)],
        native=True,
    ),
    Case("forget dropout", lambda x: F.forget(lambda a: F.tanh(a), x) * 2, [N(3, 4)], native=True),
]
