"""Row 8: what objects of Chainer and of the standard library keep, which calls use or change."""

from __future__ import annotations

import argparse
import collections
import io
import types

import sdbr

import chainer
import numpy as np
import pytest
from chainer import distributions, reporter
from chainer import functions as F
from chainer import links as L
from chainer.training import extensions

CALLS = 9


def concat(batch, **options):
    return chainer.dataset.concat_examples(batch, **options)


def arrays_of(thing):
    """What a user can see of a thing, as numbers and texts."""
    if isinstance(thing, chainer.Variable):
        return arrays_of(thing.array)
    if isinstance(thing, dict):
        return {str(key): arrays_of(x) for key, x in thing.items()}
    if isinstance(thing, (list, tuple)):
        return [arrays_of(x) for x in thing]
    if isinstance(thing, (int, float, np.ndarray, np.generic)):
        return np.asarray(thing, float).tolist()
    return arrays_of(vars(thing)) if hasattr(thing, "__dict__") else repr(type(thing))


class Keeps(chainer.Chain):
    """Calls a function with what is kept on it."""

    def __init__(self, make, use):
        super().__init__()
        self.kept, self.use = make(), use

    def forward(self, x):
        return self.use(self.kept, x)


def compare(make, use, between=lambda kept, i: None):
    """Run both ways, with arguments whose sign changes; return how many calls replayed."""
    found = []
    for wrap in (lambda model: model, sdbr.static_graph):
        model = wrap(Keeps(make, use))
        seen = []
        for i in range(CALLS):
            between(model.kept, i)
            y = model(np.full((2, 3), (i + 1) * (-1) ** (i // 3), "f"))
            seen.append((arrays_of(y), arrays_of(model.kept)))
        found.append(seen)
    for got, want in zip(found[1], found[0], strict=True):
        assert got == want
    return model.schedule_manager.statistics.replays


class Updater:
    epoch = iteration = 1
    epoch_detail = 1.0


def trainer():
    optimizer = chainer.optimizers.SGD(lr=1.0)
    one = types.SimpleNamespace(updater=Updater())
    one.updater.get_optimizer = {"main": optimizer}.get
    shift = extensions.ExponentialShift("lr", 0.5)
    shift.initialize(one)
    return types.SimpleNamespace(trainer=one, shift=shift, optimizer=optimizer)


def shifted(kept, x):
    kept.shift(kept.trainer)
    return x * kept.optimizer.lr


def counted(kept, x):
    kept._n += 1
    return x * kept._n


def branched(kept, x):
    kept.add(1.0 if x.sum() > 0 else 0.0)
    return x * 2


def named(kept, x):
    kept.add({"positive": int(x.sum() > 0), "one": 1.0})
    return x * 2


def used(kept, x):
    kept.add(3.0)
    return x * kept.compute_mean()


#: With how many calls of `CALLS` replay; none where an array of the call is kept.
STATES = {
    "a number": (reporter.Summary, lambda kept, x: (kept.add(2.0), x * 2)[1], 7),
    "a number with a weight": (reporter.Summary, lambda kept, x: (kept.add(2.0, 3), x * 2)[1], 7),
    "numbers by a branch": (reporter.Summary, branched, 6),
    "their mean": (reporter.Summary, used, 7),
    "by names": (reporter.DictSummary, named, 5),
    "a loss": (reporter.DictSummary, lambda kept, x: (kept.add({"l": x.sum()}), x * 2)[1], 0),
    "a learning rate": (trainer, shifted, 7),
    "a private name": (lambda: argparse.Namespace(_n=0), counted, 7),
    "one of a namespace": (lambda: types.SimpleNamespace(_n=0), counted, 7),
}


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
@pytest.mark.parametrize("name", STATES)
def test_what_is_kept_is_kept_by_replays(name):
    make, use, replays = STATES[name]
    assert compare(make, use) == replays


def reporting(kept, x):
    with kept:
        chainer.report({"sum": F.sum(x), "one": 1})
    return x * 2


def reporting_in_a_scope(kept, x):
    seen = {}
    with kept.scope(seen):
        chainer.report({"sum": F.sum(x)})
    return x * seen["sum"]


@pytest.mark.parametrize("use", [reporting, reporting_in_a_scope])
def test_a_reporter_of_its_own(use):
    assert compare(reporter.Reporter, use) >= 7


def remembered(kept, x):
    if "rate" not in kept._cache:
        kept._cache["rate"] = kept.rate
    return x * kept._cache["rate"]


class Remembers:
    def __init__(self):
        self.rate, self._cache = 1.0, {}


NAMESPACES = (types.SimpleNamespace, argparse.Namespace)
CACHES = [Remembers, *[lambda kind=kind: kind(rate=1.0, _cache={}) for kind in NAMESPACES]]


@pytest.mark.parametrize("make", CACHES)
def test_a_cache_of_the_users_own(make):
    """It is no library's: what it holds may be older than what it was made of."""

    def between(kept, i):
        kept.rate += 1
        if i == 5:
            kept._cache.clear()

    assert compare(make, remembered, between) >= 3


def rows():
    return np.arange(6, dtype="f").reshape(2, 3)


def batch_of(of_row):
    def make():
        array = rows()
        return [array, [of_row(row) for row in array]]

    return make


BATCHES = {
    "arrays": (lambda row: row, lambda kept, x: x * concat(kept[1])[0]),
    "on a device": (lambda row: row, lambda kept, x: x * concat(kept[1], device=-1)[0]),
    "padded": (lambda row: row, lambda kept, x: x * concat(kept[1], padding=0)[0]),
    "pairs": (lambda row: (row, 1), lambda kept, x: x * concat(kept[1])[0][0]),
    "dicts": (lambda row: {"a": row}, lambda kept, x: x * concat(kept[1])["a"][0]),
    "with an argument": (lambda row: row, lambda kept, x: concat([*kept[1], x[0]])),
    "kept": (lambda row: row, lambda kept, x: x * concat(batch=kept[1])[0]),
}


@pytest.mark.parametrize("name", BATCHES)
def test_batches_that_lie_outside(name):
    def between(kept, i):
        kept[0][...] = i // 5

    make, use = BATCHES[name]
    assert compare(batch_of(make), use, between) >= 4


def test_numbers_of_a_batch_that_lie_outside():
    def between(kept, i):
        kept[0] = i // 5

    assert compare(lambda: [0, 1], lambda kept, x: x * concat(kept)[0], between) >= 4


def normal():
    """One that has its mean by now, which it keeps."""
    one = distributions.Normal(np.zeros((2, 3), "f"), np.ones((2, 3), "f"))
    assert one.mean.shape == (2, 3)
    return one


DENSITIES = {
    "mean": lambda kept, x: x * kept.mean,
    "density": lambda kept, x: kept.log_prob(x),
    "distance": lambda kept, x: chainer.kl_divergence(distributions.Normal(x, x * x + 1), kept),
}


@pytest.mark.parametrize("name", DENSITIES)
def test_distributions_that_are_kept(name):
    assert compare(normal, DENSITIES[name]) >= 6

    def between(kept, i):
        kept.loc.array[...] = i

    assert compare(normal, DENSITIES[name], between) >= 6


def test_a_frame_may_lie_where_one_of_a_generator_has_lain():
    """What a generator gave to compiled code is over with it; the next function's result is not."""

    def use(kept, x):
        with reporter.report_scope({}):
            chainer.report({"sum": F.sum(x)})
        chainer.report({"sum": F.sum(x)})
        return x * 2

    r = reporter.Reporter()
    static = sdbr.static_graph(Keeps(dict, use))
    for i in range(4):
        with r.scope({}):
            static(np.full((2, 3), i, "f"))
            assert float(r.observation["sum"].array) == 6 * i
    assert static.schedule_manager.statistics.replays == 3


def test_each_reporter_that_is_current_is_told():
    """What it keeps is its own affair: a new one, with another observation, costs no trace."""

    def use(kept, x):
        chainer.report({"sum": F.sum(x)}, kept[0])
        return x * 2

    observer = object()
    static = sdbr.static_graph(Keeps(lambda: [observer], use))
    for i in range(6):
        r = reporter.Reporter()
        r.add_observer(f"main{i}", observer)
        if i % 2:
            r.observation = {"other": i}
        with r:
            static(np.full((2, 3), i, "f"))
        assert float(r.observation.pop(f"main{i}/sum").array) == 6 * i
        assert r.observation == ({"other": i} if i % 2 else {})
    assert static.schedule_manager.statistics.replays == 5


def taken(kept, x):
    chainer.report({"a": F.sum(x)})
    return x * 2 if kept[0].observation["a"].array > 0 else x * 3


def added_up(kept, x):
    chainer.report({"a": F.sum(x)})
    return x * sum(float(v.array) for v in kept[0].observation.values())


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
@pytest.mark.parametrize("use", [taken, added_up])
def test_what_the_call_has_reported_and_reads(use):
    """Replays report at their end: such a call is dynamic."""
    with reporter.Reporter():
        assert compare(lambda: [reporter.get_current_reporter()], use) == 0


def test_what_was_reported_before_the_call():
    def use(kept, x):
        number = kept[0].observation.get("n", 0)
        chainer.report({"n": number + 1})
        return x * number

    def make():
        r.observation = {}
        return [r]

    r = reporter.Reporter()
    with r:
        assert compare(make, use) >= 4


@pytest.mark.parametrize("kind", [collections.OrderedDict, collections.UserDict])
def test_observations_of_other_kinds(kind):
    def use(kept, x):
        chainer.report({"a": F.sum(x)})
        return x * 2

    def between(kept, i):
        assert i == 0 or float(r.observation["a"].array) != 0
        r.observation = kind()

    r = reporter.Reporter()
    with r:
        assert compare(list, use, between) >= 7


def loaded(kept, x):
    kept[1].load(kept[0])
    return kept[0](x)


def copied(kept, x):
    file = io.BytesIO()
    chainer.serializers.save_npz(file, kept[0])
    file.seek(0)
    chainer.serializers.load_npz(file, kept[1])
    return kept[1](x)


def linear():
    return L.Linear(3, 3, initialW=np.eye(3), initial_bias=0)


def archive():
    link = linear()
    arrays = {"W": link.W.array.copy(), "b": link.b.array.copy()}
    return [link, chainer.serializers.NpzDeserializer(arrays)]


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
@pytest.mark.parametrize("case", [(archive, loaded), (lambda: [linear(), linear()], copied)])
def test_what_serializers_move(case):
    def between(kept, i):
        kept[0].W.array *= -1.5

    assert compare(*case, between) == 0


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
def test_an_iterator_over_arrays_goes_on():
    """What its code reads and writes is compared as a whole: the call is dynamic, or traced."""

    def made():
        data = chainer.datasets.TupleDataset(rows().repeat(3, 0), np.arange(6))
        return chainer.iterators.SerialIterator(data, 2, shuffle=False)

    def use(kept, x):
        (row, number), _ = kept.next()
        return x * row * number

    assert compare(made, use) == 0
