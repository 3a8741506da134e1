"""chainer.links.activation."""

from __future__ import annotations

import chainer.links as L

from tests.equivalence.arguments import N, T

from .make import row, shaken

ROWS = [
    row("Maxout", lambda: L.Maxout(4, 3, 2), [N(5, 4)]),
    row("Maxout of unknown size", lambda: L.Maxout(None, 3, 4), [N(5, 2, 3)], traces=1),
    row("Maxout without bias", lambda: L.Maxout(4, 3, 2, initial_bias=None), [N(5, 4)]),
    row("PReLU", L.PReLU, [N(3, 4)], native=True),
    row("PReLU per channel", lambda: shaken(L.PReLU((4,))), [N(3, 4, 2)], native=True),
    row("SimplifiedDropconnect", lambda: L.SimplifiedDropconnect(4, 3), [N(5, 4)]),
    row(
        "SimplifiedDropconnect of unknown size",
        lambda: L.SimplifiedDropconnect(None, 3, ratio=0.2, nobias=True),
        [N(5, 2, 2)],
    ),
    row(
        "SimplifiedDropconnect one mask",
        lambda: L.SimplifiedDropconnect(4, 3),
        [N(5, 4)],
        lambda link, x: link(x, use_batchwise_mask=False),
    ),
    row(
        "SimplifiedDropconnect off",
        lambda: L.SimplifiedDropconnect(4, 3),
        [N(5, 4)],
        lambda link, x: link(x, train=False),
    ),
    row(
        "SimplifiedDropconnect given mask",
        lambda: L.SimplifiedDropconnect(4, 3),
        [N(5, 4), T(2, 5, 3, 4)],
        lambda link, x, mask: link(x, mask=mask.astype(bool)),
        second=False,
        traces=2,  # the first call keeps the mask as a persistent value
    ),
    row("Swish", lambda: shaken(L.Swish((4,))), [N(3, 4)], native=True),
    row("Swish 0-d", lambda: L.Swish(()), [N(3, 4)], native=True),
    row("Swish of unknown size", lambda: L.Swish(None), [N(3, 4)], native=True),
]
