"""Row 10: arrays that the caller or a link holds, written in place by the call: never stale."""

from __future__ import annotations

import inspect
import pickle
import re
import warnings

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L

from tests.harness.comparison import assert_near
from tests.harness.models import TwoLayers
from tests.harness.twins import statistics_of
from tests.tolerances import GRADIENTS, RESULTS

N, D, K, CALLS = 5, 4, 3, 7
HELD = ("avg", "var", "memory", "usage", "mask", "codes", "counts", "u", "trace", "same", "part")


class Holding(TwoLayers):
    """Layers, and arrays of a user's beside them; two of these share memory with `memory`."""

    def __init__(self, forward):
        super().__init__(forward, (D, D, K))
        rng = np.random.RandomState(4)
        with self.init_scope():
            self.target = L.Linear(D, D, initialW=rng.randn(D, D).astype("f"))
        self.add_persistent("avg", np.zeros(D, "f"))
        self.add_persistent("var", np.ones(D, "f"))
        self.memory = rng.randn(8, D).astype("f")
        self.usage = np.ones(8, "f")
        self.mask = np.ones(N, "f")
        self.codes = rng.randn(K, D).astype("f")
        self.counts = np.ones(K, "f")
        self.u = rng.randn(D).astype("f")
        self.trace = np.zeros((N, D), "f")
        self.same, self.part = self.memory, self.memory[2:5]


# --- statistics -----------------------------------------------------------------------------------
def running_mean(self, x, t):
    h = self.l(x)
    self.avg[...] = 0.9 * self.avg + 0.1 * h.array.mean(0)
    return F.sum((h - self.avg) ** 2)


def running_mean_colon(self, x, t):
    h = self.l(x)
    self.avg[:] = 0.9 * self.avg + 0.1 * h.array.mean(0)
    return F.sum(h - self.avg)


def running_mean_augmented(self, x, t):
    h = self.l(x)
    self.avg *= 0.9
    self.avg += 0.1 * h.array.mean(0)
    return F.sum(h - self.avg)


def running_mean_unread(self, x, t):
    h = self.l(x)
    self.avg += 0.1 * (h.array.mean(0) - self.avg)
    return F.sum(h**2)


def running_mean_and_variance(self, x, t):
    mean, var = x.mean(0), x.var(0)
    self.avg[...] = 0.9 * self.avg + 0.1 * mean
    self.var[...] = 0.9 * self.var + 0.1 * var
    return F.sum(self.l((x - self.avg) / np.sqrt(self.var + 1e-3)) ** 2)


def read_before_and_after(self, x, t):
    old = self.avg + 0
    self.avg += x.mean(0)
    return F.sum(self.l(x) * (self.avg - 0.5 * old))


def whitened_online(self, x, t):
    delta = x.mean(0) - self.avg
    self.avg += 0.2 * delta
    self.var += 0.2 * (delta * (x.mean(0) - self.avg) - self.var)
    return F.sum(self.l(x - self.avg) * self.var)


def by_copyto(self, x, t):
    y = self.l(x)
    np.copyto(self.trace, y.array)
    return F.sum(y * self.trace)


def by_copyto_where(self, x, t):
    np.copyto(self.trace, x, where=x > 0)
    return F.sum(self.l(x) * self.trace)


def by_out(self, x, t):
    np.multiply(self.avg, 0.9, out=self.avg)
    np.add(self.avg, x.mean(0), out=self.avg)
    return F.sum(self.l(x) * self.avg)


def by_mean_out(self, x, t):
    x.mean(axis=0, out=self.avg)
    return F.sum(self.l(x) - self.avg)


def filled(self, x, t):
    self.trace.fill(0.5)
    return F.sum(self.l(x) * self.trace)


def cleared_then_filled(self, x, t):
    self.trace[...] = 0
    self.trace[1:] = x[:-1]
    return F.sum(self.l(x) * self.trace)


def largest_so_far(self, x, t):
    np.maximum(self.avg, x.max(0), out=self.avg)
    return F.sum(self.l(x / (1 + self.avg)))


# --- memory ---------------------------------------------------------------------------------------
def slot(self, x, t):
    h = self.l(x)
    self.memory[2] = h.array[0]
    return F.sum(F.matmul(h, self.memory.T))


def slots(self, x, t):
    h = self.l(x)
    self.memory[:N] = h.array
    return F.sum(F.matmul(h, self.memory.T))


def shifted(self, x, t):
    self.memory[1:] = self.memory[:-1].copy()
    self.memory[0] = x.mean(0)
    return F.sum(F.matmul(self.l(x), self.memory.T))


def shifted_onto_itself(self, x, t):
    self.memory[1:] = self.memory[:-1]
    self.memory[0] = x[0]
    return F.sum(F.matmul(self.l(x), self.memory.T))


def erased_and_added(self, x, t):
    w = np.exp(self.memory.dot(x[0]))
    w /= w.sum()
    self.memory *= 1 - w[:, None] * 0.5
    self.memory += w[:, None] * x[1]
    return F.sum(F.matmul(self.l(x), self.memory.T))


def least_used(self, x, t):
    i = int(self.usage.argmin())
    self.memory[i] = x.mean(0)
    self.usage *= 0.9
    self.usage[i] = 1
    return F.sum(F.matmul(self.l(x), self.memory.T))


def least_used_by_index_array(self, x, t):
    i = self.usage.argsort()[:2]
    self.memory[i] = x[:2]
    self.usage[i] += 1
    return F.sum(F.matmul(self.l(x), self.memory.T))


def read_from(self, x, t):
    picked = self.memory[t]
    self.memory[t] = x
    return F.sum((self.l(x) * picked) ** 2)


def replayed(self, x, t):
    self.memory[np.arange(N)] = x
    return F.sum(self.l(self.memory[::2]) ** 2)


def added_at(self, x, t):
    np.add.at(self.codes, t, 0.1 * x)
    return F.sum(self.l(x) * self.codes[t])


def counted(self, x, t):
    self.counts += np.bincount(t, minlength=K)
    return F.sum(self.o(x) / self.counts)


def counted_at(self, x, t):
    np.add.at(self.counts, t, 1)
    return F.softmax_cross_entropy(self.o(x) - np.log(self.counts), t)


# --- weights --------------------------------------------------------------------------------------
def soft_update(self, x, t):
    for p, q in zip(self.target.params(), self.l.params(), strict=True):
        p.array[...] = 0.1 * q.array + 0.9 * p.array
    return F.sum((self.l(x) - self.target(x).array) ** 2)


def soft_update_at_the_end(self, x, t):
    y = F.sum((self.l(x) - self.target(x).array) ** 2)
    self.target.W.array *= 0.9
    self.target.W.array += 0.1 * self.l.W.array
    return y


def hard_update(self, x, t):
    np.copyto(self.target.W.array, self.l.W.array)
    return F.sum((self.l(x) - self.target(x)) ** 2)


def decayed(self, x, t):
    self.l.W.array *= 0.99
    return F.sum(self.l(x) ** 2)


def decayed_between(self, x, t):
    y = self.l(x)
    self.l.W.array *= 0.9
    return F.sum(self.l(y))


def clipped(self, x, t):
    np.clip(self.l.W.array, -0.5, 0.5, out=self.l.W.array)
    return F.sum(self.l(x) ** 2)


def pruned(self, x, t):
    self.l.W.array[abs(self.l.W.array) < 0.2] = 0
    return F.sum(self.l(x) ** 2)


def normalized_rows(self, x, t):
    w = self.l.W.array
    w /= np.sqrt((w**2).sum(axis=1, keepdims=True))
    return F.sum(self.l(x) ** 2)


def padding_row(self, x, t):
    self.o.W.array[0] = 0
    return F.softmax_cross_entropy(self.o(x), t)


def by_data(self, x, t):
    self.target.W.data[:] = self.l.W.data
    return F.sum(self.target(x) ** 2)


# --- masks, centroids, codebooks ------------------------------------------------------------------
def masked_labels(self, x, t):
    self.mask[...] = 1
    self.mask[t == 0] = 0
    return F.sum(self.o(x) * self.mask[:, None])


def mask_that_grows(self, x, t):
    self.mask[x[:, 0] > 1] = 0
    return F.sum(self.l(x) * self.mask[:, None])


def centroids(self, x, t):
    h = self.l(x).array
    near = ((h[:, None] - self.codes) ** 2).sum(2).argmin(1)
    for k in range(K):
        chosen = (near == k).astype("f")
        self.codes[k] += 0.1 * (chosen[:, None] * (h - self.codes[k])).sum(0)
    return F.sum((self.l(x) - self.codes[near]) ** 2)


def codebook(self, x, t):
    z = self.l(x)
    near = ((z.array[:, None] - self.codes) ** 2).sum(2).argmin(1)
    onehot = np.eye(K, dtype="f")[near]
    q = self.codes[near]
    self.counts[...] = 0.9 * self.counts + 0.1 * onehot.sum(0)
    self.codes[...] = 0.9 * self.codes + 0.1 * onehot.T.dot(z.array)
    return F.mean_squared_error(z, q)


def center_loss(self, x, t):
    h = self.l(x)
    loss = F.sum((h - self.codes[t]) ** 2)
    np.subtract.at(self.codes, t, 0.05 * (self.codes[t] - h.array))
    return loss


def power_iteration(self, x, t):
    w = self.l.W.array
    v = w.T.dot(self.u)
    v /= np.linalg.norm(v)
    self.u[:] = w.dot(v)
    self.u /= np.linalg.norm(self.u)
    return F.sum(self.l(x)) / float(self.u.dot(w).dot(v))


def eligibility(self, x, t):
    h = self.l(x)
    self.trace *= 0.9
    self.trace += h.array
    return F.sum(h * self.trace)


def delayed(self, x, t):
    before = self.trace.copy()
    self.trace[...] = x
    return F.sum(self.l(x - before) ** 2)


def frames(self, x, t):
    self.trace[:, :-1] = self.trace[:, 1:]
    self.trace[:, -1] = x[:, 0]
    return F.sum(self.l(self.trace) ** 2)


# --- in somebody else's hands ---------------------------------------------------------------------
def seen_by_backward(self, x, t):
    y = self.l(x) * self.trace
    self.trace[...] = x
    return F.sum(y)


def condition_seen_by_backward(self, x, t):
    y = F.where(self.trace > 0, self.l(x), self.l(-x))
    self.trace += x
    return F.sum(y)


def input_seen_by_backward(self, x, t):
    self.trace += x
    y = self.l(self.trace)
    self.trace *= 0.5
    return F.sum(y)


def another_name(self, x, t):
    self.memory[2] = x[0]
    return F.sum(F.matmul(self.l(x), self.same.T))


def another_name_before(self, x, t):
    m = self.same
    self.memory += x[0]
    return F.sum(F.matmul(self.l(x), m.T))


def part_of_another(self, x, t):
    self.memory[3] = x[0]
    return F.sum(F.matmul(self.l(x), self.part.T))


def whole_of_another(self, x, t):
    self.part[...] = x[:3]
    return F.sum(F.matmul(self.l(x), self.memory.T))


def both_written(self, x, t):
    self.part *= 0.5
    self.memory += x[0]
    return F.sum(F.matmul(self.l(x), self.memory.T)) + F.sum(self.l(x)) * self.part.sum()


def handed_out(self, x, t):
    self.avg += x.mean(0)
    return F.sum(self.l(x) * self.avg), self.avg


def handed_out_as_variable(self, x, t):
    self.avg += x.mean(0)
    return F.sum(self.l(x) * self.avg), chainer.Variable(self.avg)


def view_handed_out(self, x, t):
    self.memory[1] = x.mean(0)
    return F.sum(self.l(x)), self.memory[1:3]


def reported(self, x, t):
    self.avg += x.mean(0)
    chainer.report({"avg": self.avg.mean()}, self)
    return F.sum(self.l(x) * self.avg)


def replaced_and_written(self, x, t):
    self.avg = self.avg * 0.9
    self.avg += 0.1 * x.mean(0)
    return F.sum(self.l(x) * self.avg)


def written_twice(self, x, t):
    self.avg += x[0]
    y = F.sum(self.l(x) * (self.avg * 1))
    self.avg += x[1]
    return y + F.sum(self.l(x) * self.avg)


def only_in_training(self, x, t):
    if chainer.config.train:
        self.avg += x.mean(0)
    return F.sum(self.l(x) - self.avg)


def behind_a_branch(self, x, t):
    self.avg += x.mean(0)
    y = F.sum(self.l(x) * self.avg)
    if self.avg[0] > 0.3:
        self.avg[0] = 0
        y = y * 2
    return y


def argument(self, x, t):
    x -= 0.5 * x.mean(0)
    return F.sum(self.l(x) ** 2)


def labels(self, x, t):
    t[t == 1] = 0
    return F.softmax_cross_entropy(self.o(x), t)


def through_a_local_name(self, x, t):
    avg = self.avg
    row = self.memory[2]
    avg += 0.1 * x.mean(0)
    row[:] = avg
    return F.sum(F.matmul(self.l(x), self.memory.T))


def in_a_helper(self, x, t):
    def update(a, b):
        a += 0.1 * (b - a)

    update(self.avg, x.mean(0))
    update(self.var, x.var(0))
    return F.sum(self.l(x - self.avg) / self.var)


PROGRAMS = [
    f
    for name, f in list(globals().items())
    if getattr(f, "__module__", None) == __name__ and getattr(f, "__code__", None)
]


def given(i: int):
    rng = np.random.RandomState(i)
    return rng.randn(N, D).astype("f"), rng.permutation(N).astype("i") % K


def held(model) -> dict:
    """Every array that a user can look at, those of parameters among them."""
    found = {name: getattr(model, name) for name in HELD}
    for name, parameter in model.namedparams():
        found[name] = parameter.array
    return found


def seen(model, before: dict) -> dict:
    """What can be seen after a call: contents, which array it is, what a pickle holds."""
    arrays, facts = held(model), {}
    for name, array in arrays.items():
        facts[name] = array.copy()
        facts["same " + name] = array is before[name]
    again = pickle.loads(pickle.dumps({name: arrays[name] for name in HELD}))
    facts["pickled"] = np.concatenate([array.ravel() for array in again.values()])
    facts["shared"] = model.same is model.memory, model.part.base is model.memory
    return facts


def iteration(model, i: int, before: dict, optimizer=None) -> dict:
    x, t = given(i)
    facts, results = {}, []
    reporter = chainer.Reporter()
    reporter.add_observer("m", model)
    with reporter.scope({}) as _, chainer.using_config("train", i != 4):
        if optimizer is None or i % 2:
            results = model(x, t)
            results = results if isinstance(results, tuple) else (results,)
            model.cleargrads()
            results[0].backward()
            if optimizer is not None:
                optimizer.update()
        else:
            optimizer.update(lambda *args: _first(model(*args)), x, t)
        facts.update({f"reported {k}": float(v) for k, v in reporter.observation.items()})
    for n, y in enumerate(results):
        array = y.array if isinstance(y, chainer.Variable) else y
        facts[f"result {n}"] = array.copy()
        facts[f"shares {n}"] = [np.shares_memory(array, a) for a in held(model).values()]
    for name, parameter in model.namedparams():
        grad = parameter.grad
        facts["grad " + name] = None if grad is None else grad.copy()
    return {**facts, "x": x, "t": t, **seen(model, before)}


def _first(results):
    return results[0] if isinstance(results, tuple) else results


def assert_the_same(a: dict, b: dict, note: str) -> None:
    assert a.keys() == b.keys()
    for name, x in a.items():
        if isinstance(x, (np.ndarray, float)):
            bound = GRADIENTS if name.startswith("grad") else RESULTS
            assert_near(np.asarray(b[name]), np.asarray(x), bound, f"{note} {name}")
        else:
            assert x == b[name] or (x is None and b[name] is None), (note, name, x, b[name])


#: Arguments, parts of arrays.
DYNAMIC = [
    part_of_another, whole_of_another, both_written, argument, labels,
]  # fmt: skip
#: Each slot is a way of its own.
ASKING = [least_used]
#: Static, but not all of what they compute is native.
IN_PYTHON = [
    running_mean_and_variance, erased_and_added, least_used_by_index_array, centroids, codebook,
    center_loss, power_iteration, in_a_helper, counted,
]  # fmt: skip


@pytest.mark.parametrize("steps", [False, True], ids=["calls", "steps"])
@pytest.mark.parametrize("forward", PROGRAMS, ids=lambda f: f.__name__)
def test_arrays_that_outlive_the_call_are_written_as_in_define_by_run(forward, steps):
    plain, static = Holding(forward), sdbr.static_graph(Holding(forward))
    optimizers = None, None
    if steps:
        optimizers = chainer.optimizers.SGD(0.01), chainer.optimizers.SGD(0.01)
        optimizers = optimizers[0].setup(plain), sdbr.static_optimizer(optimizers[1]).setup(static)
    firsts = held(plain), held(static)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", sdbr.SdbrWarning)
        for i in range(CALLS):
            a = iteration(plain, i, firsts[0], optimizers[0])
            b = iteration(static, i, firsts[1], optimizers[1])
            assert_the_same(a, b, f"call {i}:")
    said = [str(w.message) for w in caught if issubclass(w.category, sdbr.SdbrWarning)]
    statistics = statistics_of(static)
    if forward in ASKING:
        assert not said, said
    elif forward not in DYNAMIC:
        replays = CALLS - (3 if forward is behind_a_branch else 2)
        assert statistics.replays == replays and not said, said  # it traces for `train`, too
        assert (statistics.python_ops > 0) == (forward in IN_PYTHON)
    else:
        assert not statistics_of(static).replays
        lines, first = inspect.getsourcelines(forward)
        named = re.search(rf"is not static: .* at {re.escape(__file__)}:(\d+)", " ".join(said))
        assert named, said
        assert first < int(named[1]) < first + len(lines)


@pytest.mark.parametrize(
    "forward", [f for f in PROGRAMS if f not in DYNAMIC], ids=lambda f: f.__name__
)
def test_audits_find_nothing(forward):
    static = sdbr.static_graph(Holding(forward))
    firsts = held(static)
    with warnings.catch_warnings(), chainer.using_config("sdbr_audit", 1.0):
        warnings.simplefilter("error", sdbr.SdbrWarning)
        for i in range(CALLS):
            iteration(static, i, firsts)
    audits = static.schedule_manager.audits
    assert (audits.passed or forward in ASKING) and not audits.failed


def test_what_an_attribute_held_is_not_written_over_where_it_goes_on():
    """The one of the call before is kept under another name, or handed out."""

    class Net(chainer.Chain):
        def __init__(self):
            super().__init__()
            self.h = self.before = self.array = self.first = None

        def forward(self, x):
            self.before, self.h = self.h, F.exp(x)
            last, self.array = self.array, np.tanh(x)
            self.first = last
            return F.sum(x)

    model = sdbr.static_graph(Net())
    with chainer.no_backprop_mode(), chainer.using_config("sdbr_audit", "off"):
        for i in range(12):
            x = np.full((2, 3), i / 12, "f")
            model(x)
            assert_near(model.h.array, np.exp(x), RESULTS, "h")
            assert_near(model.array, np.tanh(x), RESULTS, "array")
            if i:
                before = np.full((2, 3), (i - 1) / 12, "f")
                assert_near(model.before.array, np.exp(before), RESULTS, "before")
                assert_near(model.first, np.tanh(before), RESULTS, "first")
    assert model.schedule_manager.statistics.replays >= 8
