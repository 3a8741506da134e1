"""chainer.links.activation."""

from __future__ import annotations

import chainer.links as L

from tests.equivalence.arguments import N, T

from .make import case, shaken

CASES = [
    case("Maxout", lambda: L.Maxout(4, 3, 2), [N(5, 4)]),
    case("Maxout of unknown size", lambda: L.Maxout(None, 3, 4), [N(5, 2, 3)], traces=1),
    case("Maxout without bias", lambda: L.Maxout(4, 3, 2, initial_bias=None), [N(5, 4)]),
    case("PReLU", L.PReLU, [N(3, 4)], native=True),
    case("PReLU per channel", lambda: shaken(L.PReLU((4,))), [N(3, 4, 2)], native=True),
    case("SimplifiedDropconnect", lambda: L.SimplifiedDropconnect(4, 3), [N(5, 4)]),
    case(
        "SimplifiedDropconnect of unknown size",
        lambda: L.SimplifiedDropconnect(None, 3, ratio=0.2, nobias=True),
        [N(5, 2, 2)],
    ),
    case(
        "SimplifiedDropconnect one mask",
        lambda: L.SimplifiedDropconnect(4, 3),
        [N(5, 4)],
        lambda link, x: link(x, use_batchwise_mask=False),
    ),
    case(
        "SimplifiedDropconnect off",
        lambda: L.SimplifiedDropconnect(4, 3),
        [N(5, 4)],
        lambda link, x: link(x, train=False),
    ),
    case(
        "SimplifiedDropconnect given mask",
        lambda: L.SimplifiedDropconnect(4, 3),
        [N(5, 4), T(2, 5, 3, 4)],
        lambda link, x, mask: link(x, mask=mask.astype(bool)),
        second=False,
        traces=2,  # the first call keeps the mask as a persistent value
    ),
    case("Swish", lambda: shaken(L.Swish((4,))), [N(3, 4)], native=True),
    case("Swish 0-d", lambda: L.Swish(()), [N(3, 4)], native=True),
    case("Swish of unknown size", lambda: L.Swish(None), [N(3, 4)], native=True),
]
