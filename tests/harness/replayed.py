"""Models whose calls are replays, and the code of Chainer's that compiled code was written from."""

from __future__ import annotations

import hashlib
import inspect

import sdbr

import numpy as np
from chainer import links as L

from .models import MLP

X = np.random.RandomState(0).randn(5, 4).astype("f")
T = np.array([0, 1, 2, 0, 1], "i")


def replayed(make=lambda: L.Classifier(MLP(4, 8, 3)), args=(X, T)):
    """A static model whose calls are replays by now."""
    np.random.seed(0)
    model = sdbr.static_graph(make(), on_dynamic="raise")
    for _ in range(3):
        model(*args)
    model.cleargrads()
    return model


def digest_of(owner, name: str) -> str:
    """Of the source of an attribute, past whatever is wrapped around it."""
    source = inspect.getsource(inspect.unwrap(getattr(owner, name)))
    return hashlib.sha1(source.encode()).hexdigest()[:12]
