"""Chainer trains on the look-alike as it does on NumPy, without anything of sdbr."""

from __future__ import annotations

import chainer
import cupy
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.equivalence.harness import assert_near
from tests.harness.update_rules import HOOKS, RULES
from tests.tolerances import DOUBLE_TRAINING, SUMS

from .harness import DEVICE, arrays_of, host, moved

#: CuPy's generator draws other noise than NumPy's.
ALIKE = {name: make for name, make in HOOKS.items() if name != "noise"}
TOLERANCES = {"f": SUMS, "d": DOUBLE_TRAINING}
STEPS = 6


def mlp():
    return chainer.Sequential(L.Linear(5, 8), F.relu, L.Linear(8, 3))


class Words(chainer.Chain):
    """Embedded words through an LSTM with dropout, whose masks are given or kept."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.embed = L.EmbedID(7, 4)
            self.lstm = L.LSTM(4, 6)
            self.out = L.Linear(6, 3)
        self.masks = None

    def forward(self, words, masks):
        self.lstm.reset_state()
        self.drawn = []
        for i, column in enumerate(words.T):
            given = None if masks is None else masks[i]
            h, mask = F.dropout(self.lstm(self.embed(column)), mask=given, return_mask=True)
            self.drawn.append(mask)
        return self.out(h)


class Images(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            # A bias would have no gradient but noise: the normalization takes it away.
            self.conv = L.Convolution2D(2, 4, 3, pad=1, nobias=True)
            self.norm = L.BatchNormalization(4)
            self.out = L.Linear(36, 3)

    def forward(self, x):
        return self.out(F.max_pooling_2d(F.relu(self.norm(self.conv(x))), 2))


def floats(*shape):
    return lambda rng: rng.standard_normal(shape)


def integers(most, *shape):
    return lambda rng: rng.integers(0, most, shape).astype("i")


def train(make, inputs, rule, hooks=(), *, on_cupy, dtype, masks=None):
    """Losses, what the model and its update rules hold at the end, and masks of dropout."""
    np.random.seed(0)
    rng = np.random.default_rng(0)
    losses, drawn = [], []
    with chainer.using_config("dtype", np.dtype(dtype)):
        model = make()
        if on_cupy:
            model.to_device(DEVICE)
        optimizer = rule().setup(model)
        for name in hooks:
            optimizer.add_hook(ALIKE[name](), name)
        for step in range(STEPS):
            *xs, t = (make_one(rng) for make_one in (*inputs, integers(3, 4)))
            xs = [x.astype(dtype) if x.dtype.kind == "f" else x for x in xs]
            *xs, t = moved([*xs, t], on_cupy)
            if isinstance(model, Words):
                xs.append(None if masks is None else masks[step])
            loss = F.softmax_cross_entropy(model(*xs), t)
            model.cleargrads()
            loss.backward()
            optimizer.update()
            losses.append(host(loss.array))
            drawn.append([host(mask) for mask in getattr(model, "drawn", ())])
    rules = [p.update_rule.state for _, p in sorted(model.namedparams())]
    kept = [x for state in rules for _, x in sorted((state or {}).items())]
    end = [host(x) for x in arrays_of(model) + kept if isinstance(x, (np.ndarray, cupy.ndarray))]
    classes = {type(p.array) for p in model.params()}
    assert classes == {cupy.ndarray if on_cupy else np.ndarray}
    return losses, end, drawn


def check(make, inputs, rule, hooks=(), *, dtype="f"):
    *got, masks = train(make, inputs, rule, hooks, on_cupy=True, dtype=dtype)
    *want, _ = train(make, inputs, rule, hooks, on_cupy=False, dtype=dtype, masks=masks)
    assert len(set(map(float, want[0]))) > 1
    for ours, theirs in zip(got, want, strict=True):
        for k, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            assert_near(np.asarray(a), np.asarray(b), TOLERANCES[dtype], str(k))


# MSVAG divides by a variance that is nothing but rounding at first.
@pytest.mark.parametrize(
    ("rule", "dtype"), [(r, d) for r in RULES for d in TOLERANCES if r + d != "msvagf"]
)
def test_rules(rule, dtype):
    check(mlp, [floats(4, 5)], RULES[rule], dtype=dtype)


@pytest.mark.parametrize("hook", ALIKE)
@pytest.mark.parametrize("rule", ["adam", "momentum_sgd", "sgd"])
def test_hooks(rule, hook):
    check(mlp, [floats(4, 5)], RULES[rule], [hook], dtype="d")


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("rule", ["adam", "momentum_sgd", "sgd"])
@pytest.mark.parametrize(
    ("make", "inputs"),
    [(Words, [integers(7, 4, 5)]), (Images, [floats(4, 2, 6, 6)])],
    ids=["words", "images"],
)
def test_networks(make, inputs, rule, dtype):
    check(make, inputs, RULES[rule], ["decay", "clip"], dtype=dtype)
