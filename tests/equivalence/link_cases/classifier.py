"""chainer.links.model: Classifier. The vision models have a module of their own."""

from __future__ import annotations

import chainer.functions as F
import chainer.links as L

from tests.equivalence.arguments import N, T

from .make import case

# Second derivatives have to be asked for.
ONCE = {"second": False}


def silent():
    link = L.Classifier(L.Linear(4, 3))
    link.compute_accuracy = False
    return link


def keyed(link, x, t):
    return link(x, truth=t)


CASES = [
    case("Classifier", lambda: L.Classifier(L.Linear(4, 3)), [N(5, 4), T(3, 5)], **ONCE),
    case(
        "Classifier of unknown size", lambda: L.Classifier(L.Linear(3)), [N(5, 4), T(3, 5)], **ONCE
    ),
    case("Classifier without accuracy", silent, [N(5, 4), T(3, 5)], **ONCE),
    case(
        "Classifier with ignored labels",
        lambda: L.Classifier(L.Linear(4, 3)),
        [N(5, 4), T(3, 5, ignore=-1)],
        **ONCE,
    ),
    case(
        "Classifier other functions",
        lambda: L.Classifier(L.Linear(4, 3), F.mean_squared_error, F.r2_score),
        [N(5, 4), N(5, 3)],
    ),
    case(
        "Classifier label by name",
        lambda: L.Classifier(L.Linear(4, 3), label_key="truth"),
        [N(5, 4), T(3, 5)],
        keyed,
        **ONCE,
    ),
    case(
        "Classifier label by position",
        lambda: L.Classifier(L.Linear(4, 3), label_key=0),
        [T(3, 5), N(5, 4)],
        **ONCE,
    ),
]
