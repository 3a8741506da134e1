"""Row 10: what Chainer computes outside of function nodes is recorded whole, and replays."""

from __future__ import annotations

import copy
import pickle
import warnings

import sdbr
from sdbr.trace.whole import RECORDED_WHOLE

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest
from chainer import backend

from tests.harness.comparison import (
    BACKENDS,
    assert_all_near,
    assert_near,
    check,
    gradients_of,
    state_of,
)
from tests.harness.models import Net
from tests.harness.twins import X, pair, statistics_of
from tests.tolerances import RESULTS

XS = np.random.RandomState(0).randn(8, 6, 4).astype("f")


def floats(rng):
    return (chainer.Variable(rng.standard_normal((3, 4)).astype("f")),)


def test_the_list_names_what_is_there():
    for owner, name, _ in RECORDED_WHOLE:
        assert callable(getattr(owner, name))


OUTSIDE = {
    "floor": F.floor,
    "ceil": F.ceil,
    "fix": F.fix,
    "sign": F.sign,
    "gumbel_softmax": lambda x: F.gumbel_softmax(x, tau=0.5),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_functions_outside_of_nodes(name):
    function = OUTSIDE[name]
    check(lambda: Net(lambda self, x: function(self.l(x)) + self.l(x), l=L.Linear(4, 3)), floats)


# --- arrays that a node keeps and the call hands out ---------------------------------------------


def pooled(self, x):
    y, indices = F.max_pooling_2d(self.l(x), 2, return_indices=True)
    return F.upsampling_2d(y * 2, indices, 2, outsize=(4, 4)), indices


def pooled_by_node(self, x):
    """As code did before ``return_indices``; nothing but the indexes wants a gradient."""
    y = F.max_pooling_2d(self.l(x), 2)
    given = F.max_pooling_2d(x, 2)
    again = F.upsampling_2d(given, given.creator.indexes, 2, outsize=(4, 4))
    return F.upsampling_2d(y * 2, y.creator.indexes, 2, outsize=(4, 4)), again


def dropped(self, x):
    y, mask = F.dropout(self.l(x), 0.3, return_mask=True)
    return y, F.dropout(y, 0.3, mask=mask), mask


def computed_with(self, x):
    y, mask = F.dropout(self.l(x), return_mask=True)
    return y * (mask > 0), np.count_nonzero(mask, axis=1)


KEPT = {
    "dropout, in NumPy": (computed_with, floats, L.Linear(4, 3)),
    "pooling": (pooled, lambda rng: (rng.randn(2, 2, 4, 4).astype("f"),), L.Convolution2D(2, 3, 1)),
    "pooling, of the node": (
        pooled_by_node,
        lambda rng: (chainer.Variable(rng.randn(2, 2, 4, 4).astype("f")),),
        L.Convolution2D(2, 3, 1),
    ),
    "dropout": (dropped, floats, L.Linear(4, 3)),
    "gaussian": (
        lambda self, x: F.gaussian(x, self.l(x), return_eps=True),
        floats,
        L.Linear(4, 4),
    ),
    "rrelu": (lambda self, x: F.rrelu(self.l(x), return_r=True), floats, L.Linear(4, 3)),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_a_node_keeps(name):
    forward, data, link = KEPT[name]
    check(lambda: Net(forward, l=copy.deepcopy(link)), data)


# --- finetune=True -------------------------------------------------------------------------------


class Finetuned(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            # The gradient of a bias before a normalization is zero but for rounding.
            self.l = L.Linear(4, 3, nobias=True)
            self.bn = L.BatchNormalization(3)

    def forward(self, x):
        return F.sum(F.tanh(self.bn(self.l(x), finetune=True)) ** 2)


def iterate(model, x) -> dict:
    loss = model(x)
    model.cleargrads()
    loss.backward()
    return {**gradients_of(model), **state_of(model), "loss": loss.array.copy()}


def test_the_count_goes_on_and_starts_again():
    np.random.seed(0)
    plain = Finetuned()
    static = sdbr.static_graph(copy.deepcopy(plain), on_dynamic="raise")
    for i, x in enumerate(XS):
        if i == 5:
            plain.bn.start_finetuning()
            static.bn.start_finetuning()
        assert_all_near(iterate(static, x), iterate(plain, x), RESULTS, f"call {i}")
        assert static.bn.N == plain.bn.N == (i + 1 if i < 5 else i - 4)
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (1, 7)


def test_finetuning_among_training_and_testing():
    """Population statistics of a trained network, as one computes them before testing it."""
    np.random.seed(0)
    plain = Finetuned()
    static = sdbr.static_graph(copy.deepcopy(plain), on_dynamic="raise")
    for i, x in enumerate(XS):
        with chainer.using_config("train", i % 3 != 2):
            assert_all_near(iterate(static, x), iterate(plain, x), RESULTS, f"call {i}")
    assert static.bn.N == plain.bn.N == 6
    again = pickle.loads(pickle.dumps(static.bn))
    assert again.N == 6


def test_a_replaced_parameter_is_noticed():
    np.random.seed(0)
    plain = Finetuned()
    static = sdbr.static_graph(copy.deepcopy(plain), on_dynamic="raise")
    for i, x in enumerate(XS):
        for model in (plain, static):
            if i == 3:
                model.bn.gamma.array = np.full(3, 2, "f")
            if i == 5:
                with model.bn.init_scope():
                    model.bn.gamma = chainer.Parameter(np.full(3, 3, "f"))
            model.bn.decay = 0.5 + i / 20  # not used while fine-tuning
        assert_all_near(iterate(static, x), iterate(plain, x), RESULTS, f"call {i}")
    assert static.schedule_manager.statistics.replays >= 5


def test_the_count_is_a_number_like_any_other():
    """Code that reads what fine-tuning writes is dynamic, and says so."""

    class Scaled(Finetuned):
        def forward(self, x):
            y = super().forward(x)
            return y * self.bn.N

    model = sdbr.static_graph(Scaled(), on_dynamic="raise")
    with pytest.raises(sdbr.NotStaticError, match="'N'"):
        model(XS[0])


# --- samplers and copies -------------------------------------------------------------------------


def test_a_replaced_sampler_is_noticed():
    def make():
        np.random.seed(1)
        link = L.NegativeSampling(4, [1, 2, 3, 4, 5], 3)
        link.W.array = np.random.randn(5, 4).astype("f")
        return link

    static, plain = sdbr.static_graph(make(), on_dynamic="raise"), make()
    t = np.arange(6, dtype="i") % 5
    for i, x in enumerate(XS):
        for model in (static, plain):
            if i == 4:
                model.sampler = L.NegativeSampling(4, [9, 1, 1, 1, 1], 3).sampler
        found = []
        for model in (static, plain):
            np.random.seed(i)
            found.append(model(x, t).array)
        assert_near(*found, 1e-5, f"call {i}")
    statistics = static.schedule_manager.statistics
    assert (statistics.traces, statistics.replays) == (2, 6)


class Remembering(chainer.Chain):
    """Keeps a running mean in place, with Chainer's own copyto."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(4, 3)
        self.add_persistent("mean", np.zeros(3, "f"))

    def forward(self, x):
        y = self.l(x)
        backend.copyto(self.mean, 0.9 * self.mean + 0.1 * y.array.mean(axis=0))
        return y - self.mean


def test_copyto_into_an_attribute():
    np.random.seed(0)
    plain = Remembering()
    static = sdbr.static_graph(copy.deepcopy(plain), on_dynamic="raise")
    for i, x in enumerate(XS):
        assert_near(static(x).array, plain(x).array, RESULTS, f"call {i}")
        assert_near(static.mean, plain.mean, RESULTS, f"mean {i}")
    assert static.schedule_manager.statistics.replays == 7


def test_copyto_into_an_argument_is_dynamic():
    def f(x, out):
        backend.copyto(out, 2 * x)
        return F.relu(chainer.Variable(x))

    static = sdbr.static_graph(f, on_dynamic="raise")
    with pytest.raises(sdbr.NotStaticError, match="copyto"):
        static(XS[0], np.zeros_like(XS[0]))


@pytest.mark.parametrize("backend", BACKENDS)
def test_functions_that_compute_outside_a_node(backend):
    def forward(self, x):
        h = self.l(x) * 3
        return F.floor(h) + F.ceil(h) * 2, F.fix(h), F.sign(h) * h

    plain, static = pair(lambda: Net(forward, l=L.Linear(4, 3)), backend=backend)
    for i in range(4):
        for g, w in zip(static(X + i), plain(X + i), strict=True):
            assert_near(g.array, w.array, RESULTS, "output")
    assert (statistics_of(static).traces, statistics_of(static).replays) == (1, 3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_batch_normalization_finetune(backend):
    def forward(self, x):
        return self.n(x, finetune=True)

    plain, static = pair(lambda: Net(forward, n=L.BatchNormalization(4)), backend=backend)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdbr.SdbrWarning)
        sdbr.static_graph(static, on_dynamic="fallback")
        for i in range(5):
            for model in (plain, static):
                model(X * (i + 1))
            assert static.n.N == plain.n.N
            assert_near(static.n.avg_mean, plain.n.avg_mean, RESULTS, "mean")
            assert_near(static.n.avg_var, plain.n.avg_var, RESULTS, "var")
