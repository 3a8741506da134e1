"""Rows 8 and 9: what a call adds to lists, dicts and deques of links, each replay adds as well."""

from __future__ import annotations

import collections
import inspect
import operator
import re
import warnings

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F

from tests.harness.comparison import assert_near
from tests.harness.held import assert_alike, facts_of
from tests.harness.models import TwoLayers
from tests.harness.threads import in_threads
from tests.harness.twins import statistics_of
from tests.tolerances import GRADIENTS, RESULTS

N, D, K, CALLS = 5, 4, 3, 7


class Keeping(TwoLayers):
    """Two layers, and containers of a user's beside them."""

    def __init__(self, forward):
        super().__init__(forward, (D, D, K))
        self.history = []
        self.hs = [None] * 4
        self.stats = {}
        self.named = collections.OrderedDict(first=0.0)
        self.lately = collections.deque(maxlen=3)
        self.l.seen = []
        self.rate = 0.5


def loss_of(self, x, t):
    return F.softmax_cross_entropy(self.o(F.tanh(self.l(x))), t)


# --- numbers --------------------------------------------------------------------------------------
def number(self, x, t):
    loss = loss_of(self, x, t)
    self.history.append(float(loss.array))
    return loss


def item(self, x, t):
    loss = loss_of(self, x, t)
    self.history.append(loss.array.item())
    return loss


def computed_number(self, x, t):
    loss = loss_of(self, x, t)
    self.history.append(2 * float(loss.array) + 1)
    return loss


def whole_number(self, x, t):
    y = self.o(F.tanh(self.l(x)))
    self.history.append(int((y.array.argmax(1) == t).sum()))
    return F.softmax_cross_entropy(y, t)


def several(self, x, t):
    h = x
    for _ in range(3):
        h = F.tanh(self.l(h))
        self.history.append(float(h.array.mean()))
    return F.softmax_cross_entropy(self.o(h), t)


def constants(self, x, t):
    self.history.append("call")
    self.history.append(1)
    self.history.append(None)
    return loss_of(self, x, t)


def pair(self, x, t):
    loss = loss_of(self, x, t)
    self.history.append(("loss", float(loss.array), loss.array.copy()))
    return loss


def row(self, x, t):
    loss = loss_of(self, x, t)
    self.history.append({"loss": float(loss.array), "n": 3})
    return loss


def row_by_name(self, x, t):
    loss = loss_of(self, x, t)
    found = {"loss": float(loss.array)}
    found["array"] = loss.array.copy()
    self.history.append(found)
    return loss


def at_key(self, x, t):
    loss = loss_of(self, x, t)
    self.stats["loss"] = float(loss.array)
    self.stats["n"] = 1
    return loss


def at_keys(self, x, t):
    loss = loss_of(self, x, t)
    for key in ("a", "b"):
        self.named[key] = float(loss.array)
    return loss


def updated(self, x, t):
    loss = loss_of(self, x, t)
    self.stats.update({"loss": float(loss.array), "array": loss.array.copy()})
    return loss


def scalar_of_numpy(self, x, t):
    loss = loss_of(self, x, t)
    self.history.append(loss.array.mean())
    return loss


def the_same_again(self, x, t):
    self.history.clear()
    self.history.append(("call", (1, None)))
    return loss_of(self, x, t)


# --- arrays and Variables -------------------------------------------------------------------------
def array(self, x, t):
    h = F.tanh(self.l(x))
    self.history.append(h.array.copy())
    return F.softmax_cross_entropy(self.o(h), t)


def array_of_result(self, x, t):
    h = F.tanh(self.l(x))
    self.history.append(h.array)
    return F.softmax_cross_entropy(self.o(h), t)


def hidden(self, x, t):
    h = F.tanh(self.l(x))
    self.history.append(h)
    return F.softmax_cross_entropy(self.o(h), t)


def result(self, x, t):
    loss = loss_of(self, x, t)
    self.history.append(loss)
    return loss


def twice(self, x, t):
    loss = loss_of(self, x, t)
    self.history.append(loss)
    self.lately.append(loss)
    self.loss = loss
    return loss


def all_hidden(self, x, t):
    self.history.clear()
    h = x
    for _ in range(3):
        h = F.tanh(self.l(h))
        self.history.append(h)
    return F.softmax_cross_entropy(self.o(h), t)


def extended(self, x, t):
    a = F.tanh(self.l(x))
    b = F.tanh(self.l(a))
    self.history.extend([a, b])
    self.history.extend((a.array.copy(), 1.5))
    return F.softmax_cross_entropy(self.o(b), t)


def extended_one_by_one(self, x, t):
    hs = [F.tanh(self.l(x)) for _ in range(3)]
    self.history.extend(float(h.array.mean()) for h in hs)
    return F.softmax_cross_entropy(self.o(sum(hs)), t)


def slots(self, x, t):
    h = x
    for i in range(4):
        h = F.tanh(self.l(h))
        self.hs[i] = h
    return F.softmax_cross_entropy(self.o(h), t)


def last_slot(self, x, t):
    h = F.tanh(self.l(x))
    self.hs[-1] = h
    return F.softmax_cross_entropy(self.o(h), t)


def by_name(self, x, t):
    h = F.tanh(self.l(x))
    self.stats["h"] = h
    self.stats["pair"] = (h, h.array.sum())
    return F.softmax_cross_entropy(self.o(h), t)


def bounded(self, x, t):
    loss = loss_of(self, x, t)
    self.lately.append(float(loss.array))
    return loss


def from_the_left(self, x, t):
    loss = loss_of(self, x, t)
    self.lately.appendleft(loss)
    self.lately.extendleft([1, 2])
    return loss


def in_a_child(self, x, t):
    loss = loss_of(self, x, t)
    self.l.seen.append(float(loss.array))
    return loss


def in_a_helper(self, x, t):
    loss = loss_of(self, x, t)
    note(self, loss)
    return loss


def note(model, loss):
    model.history.append(float(loss.array))


def behind_a_branch(self, x, t):
    loss = loss_of(self, x, t)
    if chainer.config.train:
        self.history.append(float(loss.array))
    return loss


def with_an_attribute(self, x, t):
    loss = loss_of(self, x, t)
    self.loss = loss
    self.history.append(float(self.loss.array))
    chainer.report({"loss": loss}, self)
    return loss


def renewed(self, x, t):
    self.history = []
    for _ in range(2):
        self.history.append(F.tanh(self.l(x)))
    return F.softmax_cross_entropy(self.o(self.history[0] + self.history[1]), t)


# --- dynamic --------------------------------------------------------------------------------------
def read_before(self, x, t):
    n = len(self.history)
    loss = loss_of(self, x, t)
    self.history.append(n)
    return loss


def read_after(self, x, t):
    loss = loss_of(self, x, t)
    self.history.append(float(loss.array))
    return loss + sum(self.history)


def capped(self, x, t):
    loss = loss_of(self, x, t)
    self.history.append(float(loss.array))
    if len(self.history) > 3:
        self.history.pop(0)
    return loss


def other_name(self, x, t):
    loss = loss_of(self, x, t)
    kept = self.history
    kept.append(float(loss.array))
    return loss


def by_getattr(self, x, t):
    loss = loss_of(self, x, t)
    self.history.append(float(loss.array))
    return loss + len(getattr(self, "history"))  # noqa: B009


def by_fields(self, x, t):
    loss = loss_of(self, x, t)
    self.history.append(float(loss.array))
    return loss + len(self.__dict__["history"])


def by_vars(self, x, t):
    loss = loss_of(self, x, t)
    self.history.append(float(loss.array))
    return loss + len(vars(self)["history"])


def counted(self, x, t):
    self.stats["n"] = self.stats.get("n", 0) + 1
    return loss_of(self, x, t) * self.stats["n"]


def read_after_a_constant(self, x, t):
    self.history.append(1)
    return loss_of(self, x, t) * len(self.history)


def arrays_read_after(self, x, t):
    h = F.tanh(self.l(x))
    self.lately.append(h.array.mean(0))
    return F.softmax_cross_entropy(self.o(h + sum(self.lately)), t)


def the_last_three(self, x, t):
    loss = loss_of(self, x, t)
    self.history.append(loss.array.copy())
    del self.history[:-3]
    return loss


def replaced(self, x, t):
    loss = loss_of(self, x, t)
    self.history.append(float(loss.array))
    self.history = []
    return loss


def something_else(self, x, t):
    loss = loss_of(self, x, t)
    self.history.append(Thing())
    return loss


class Thing:
    """What no replay makes."""


def its_own_list(self, x, t):
    loss = loss_of(self, x, t)
    self.history.append(self.hs)
    return loss


def argument_kept(self, x, t):
    loss = loss_of(self, x, t)
    self.history.append(x)
    return loss


def parameter_kept(self, x, t):
    loss = loss_of(self, x, t)
    self.history.append(self.l.W)
    return loss


DYNAMIC = [
    read_before, read_after, capped, other_name, by_getattr, by_fields, by_vars, counted,
    read_after_a_constant, arrays_read_after, replaced, something_else, its_own_list, argument_kept,
    parameter_kept, the_last_three,
]  # fmt: skip
STATIC = [
    number, item, computed_number, whole_number, several, constants, pair, row, row_by_name,
    at_key, at_keys, updated, scalar_of_numpy, the_same_again, array, array_of_result, hidden,
    result, twice, all_hidden, extended, extended_one_by_one, slots, last_slot, by_name, bounded,
    from_the_left, in_a_child, in_a_helper, behind_a_branch, with_an_attribute, renewed,
]  # fmt: skip


READ_AFTER = [
    read_after, capped, by_getattr, counted, read_after_a_constant, arrays_read_after,
    the_last_three,
]  # fmt: skip

CONTAINERS = ("history", "hs", "stats", "named", "lately", "loss")

#: The comparison of what `argmax` gives with labels is not native.
IN_PYTHON = [whole_number]


def x_and_t(i: int) -> tuple:
    rng = np.random.RandomState(i)
    return rng.randn(N, D).astype("f"), rng.randint(0, K, N).astype("i")


def iteration(model, i: int, optimizer=None) -> tuple:
    """One call and its backward, or one update."""
    x, t = x_and_t(i)
    if optimizer is not None:
        optimizer.update(model, x, t)
        y = getattr(model, "loss", None)
    else:
        model.cleargrads()
        y = model(x, t)
        (y["loss"] if isinstance(y, dict) else y).backward()
    grads = {name: None if p.grad is None else p.grad.copy() for name, p in model.namedparams()}
    weights = {name: p.array.copy() for name, p in model.namedparams()}
    known = {"result": y, "x": x, "W": model.l.W, "hs": model.hs}
    held = [getattr(model, name, None) for name in CONTAINERS]
    return facts_of([*held, model.l.seen], known), grads, weights


def both(forward, steps: bool) -> tuple:
    plain, static = Keeping(forward), sdbr.static_graph(Keeping(forward))
    if not steps:
        return plain, static, None, None
    first, second = chainer.optimizers.SGD(0.1), chainer.optimizers.SGD(0.1)
    return plain, static, first.setup(plain), sdbr.static_optimizer(second).setup(static)


def compare(forward, steps: bool) -> tuple:
    plain, static, first, second = both(forward, steps)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", sdbr.SdbrWarning)
        for i in range(CALLS):
            with reporting(plain):
                a = iteration(plain, i, first)
            with reporting(static):
                b = iteration(static, i, second)
            assert_alike(a[0], b[0], f"call {i}")
            for x, y in zip(a[1:], b[1:], strict=True):
                assert x.keys() == y.keys()
                for name, want in x.items():
                    assert_near(y[name], want, GRADIENTS, f"call {i} {name}")
    said = [str(w.message) for w in caught if issubclass(w.category, sdbr.SdbrWarning)]
    return static, said


def reporting(model):
    reporter = chainer.Reporter()
    reporter.add_observer("main", model)
    return reporter.scope({})


@pytest.mark.parametrize("steps", [False, True], ids=["calls", "steps"])
@pytest.mark.parametrize("forward", STATIC, ids=lambda f: f.__name__)
def test_what_a_call_adds_replays_add(forward, steps):
    static, said = compare(forward, steps)
    statistics = statistics_of(static)
    assert not said, said
    assert statistics.replays >= CALLS - 2
    assert (statistics.python_ops > 0) == (forward in IN_PYTHON)


@pytest.mark.parametrize("forward", DYNAMIC, ids=lambda f: f.__name__)
def test_who_reads_what_the_call_has_added_is_dynamic(forward):
    static, said = compare(forward, False)
    assert ("is read after the call" in " ".join(said)) == (forward in READ_AFTER), said
    assert not statistics_of(static).replays
    lines, first = inspect.getsourcelines(forward)
    named = re.search(r"is not static: .* at (.*):(\d+)", " ".join(said))
    assert named and named[1] == __file__, said
    assert first < int(named[2]) < first + len(lines), said


# --- between calls --------------------------------------------------------------------------------
def renew(model, i):
    model.history = [i]


def clear(model, i):
    model.history.clear()


def past_the_link(model, i):
    model.__dict__["history"] = []


def share(model, i):
    model.hs = model.history


def drop(model, i):
    del model.history[:]


@pytest.mark.parametrize("change", [renew, clear, past_the_link, share, drop])
def test_whichever_list_is_there_by_then(change):
    plain, static = Keeping(pair), sdbr.static_graph(Keeping(pair))
    for i in range(CALLS):
        a, b = iteration(plain, i), iteration(static, i)
        assert_alike(a[0], b[0], f"call {i}")
        for model in (plain, static):
            change(model, i)
    statistics = statistics_of(static)
    assert (statistics.traces, statistics.replays) == (1, CALLS - 1)


def test_a_container_of_another_class_is_another_schedule():
    plain, static = Keeping(number), sdbr.static_graph(Keeping(number))
    for i in range(9):
        for model in (plain, static):
            model.history = collections.deque(model.history) if i % 2 else list(model.history)
        assert_alike(iteration(plain, i)[0], iteration(static, i)[0], f"call {i}")
    statistics = statistics_of(static)
    assert (statistics.traces, statistics.replays) == (2, 7)
    for model in (plain, static):
        model.history = None
        with pytest.raises(AttributeError):
            model(*x_and_t(0))


@pytest.mark.parametrize("names", [("history", "hs"), ("hs", "history")])
def test_one_list_under_two_names(names):
    def forward(self, x, t):
        loss = loss_of(self, x, t)
        self.history.append(float(loss.array))
        return loss + len(self.hs)

    plain, static = Keeping(forward), sdbr.static_graph(Keeping(forward))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdbr.SdbrWarning)
        for i in range(CALLS):
            for model in (plain, static):
                setattr(model, names[0], getattr(model, names[1]))
            assert_alike(iteration(plain, i)[0], iteration(static, i)[0], f"call {i}")


def test_one_list_of_two_links_and_a_global():
    def forward(self, x, t):
        loss = loss_of(self, x, t)
        self.history.append(float(loss.array))
        self.l.seen.append(1)
        self.history.append("in turn")
        return loss

    models = Keeping(forward), sdbr.static_graph(Keeping(forward))
    for model in models:
        model.l.seen = model.history
    for i in range(CALLS):
        a, b = (iteration(model, i) for model in models)
        assert_alike(a[0], b[0], f"call {i}")
    logs = {model: model.history for model in models}

    def counting(self, x, t):
        loss = loss_of(self, x, t)
        self.history.append(float(loss.array))
        return loss * len(logs[self])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdbr.SdbrWarning)
        for model in models:
            model._forward = counting
        for i in range(CALLS):
            ys = [model(*x_and_t(i)).array for model in models]
            assert_near(ys[1], ys[0], RESULTS, f"call {i}")


# --- ways, gradients, code that runs every time ---------------------------------------------------
@pytest.mark.parametrize("share", ["off", 1.0])
def test_a_way_that_turns_back_has_added_nothing(share):
    def forward(self, x, t):
        h = F.tanh(self.l(x))
        self.history.append(float(h.array.mean()))
        if float(h.array.sum()) > 0:
            self.history.append("positive")
            h = h * 2
        if float(h.array.max()) > 0.9:
            self.history.append(h)
        return F.softmax_cross_entropy(self.o(h), t)

    plain, static = Keeping(forward), sdbr.static_graph(Keeping(forward))
    with chainer.using_config("sdbr_audit", share):
        for i in range(40):
            assert_alike(iteration(plain, i)[0], iteration(static, i)[0], f"call {i}")
    statistics = statistics_of(static)
    assert statistics.replays > 20 and not statistics.define_by_run_calls
    assert not static.schedule_manager.audits.failed


def test_gradients_flow_through_what_was_added():
    models = Keeping(all_hidden), sdbr.static_graph(Keeping(all_hidden))
    for i in range(CALLS):
        grads = []
        for model in models:
            model.cleargrads()
            loss = model(*x_and_t(i))
            for h in model.history:
                loss += F.sum(h**2)
            loss.backward()
            grads.append({name: p.grad for name, p in model.namedparams()})
        for name, want in grads[0].items():
            assert_near(grads[1][name], want, GRADIENTS, f"call {i} {name}")
    assert statistics_of(models[1]).replays == CALLS - 1


def test_static_code_that_reads_what_was_added_is_dynamic():
    def forward(self, x, t):
        loss = loss_of(self, x, t)
        self.history.append(float(loss.array))
        count(self)
        return loss

    @sdbr.static_code
    def count(model):
        model.counted = len(model.history)

    static = sdbr.static_graph(Keeping(forward))
    with pytest.warns(sdbr.SdbrWarning, match="'history', written during the call"):
        for i in range(CALLS):
            static(*x_and_t(i))
            assert static.counted == len(static.history) == i + 1


def test_static_code_that_adds_as_well():
    def forward(self, x, t):
        loss = loss_of(self, x, t)
        self.history.append(float(loss.array))
        add(self)
        return loss

    @sdbr.static_code
    def add(model):
        model.history.append("code")

    models = Keeping(forward), sdbr.static_graph(Keeping(forward))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdbr.SdbrWarning)
        for i in range(CALLS):
            a, b = (iteration(model, i) for model in models)
            assert_alike(a[0], b[0], f"call {i}")


def test_forgotten_functions_add_twice():
    def forward(self, x, t):
        def inner(x):
            h = F.tanh(self.l(x))
            self.history.append(float(h.array.mean()))
            return h

        return F.softmax_cross_entropy(self.o(F.forget(inner, x)), t)

    models = Keeping(forward), sdbr.static_graph(Keeping(forward))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdbr.SdbrWarning)
        for i in range(CALLS):
            a, b = (iteration(model, i) for model in models)
            assert_alike(a[0], b[0], f"call {i}")


def test_test_mode_and_nested_chains():
    class Outer(chainer.Chain):
        def __init__(self, inner):
            super().__init__()
            self.losses = []
            with self.init_scope():
                self.inner = inner

        def forward(self, x, t):
            loss = self.inner(x, t)
            self.losses.append(loss)
            return loss * 2

    plain = Outer(Keeping(number))
    static = sdbr.static_graph(Outer(sdbr.static_graph(Keeping(number))))
    for i in range(8):
        with chainer.using_config("train", i % 2 == 0), chainer.no_backprop_mode():
            for model in (plain, static):
                model(*x_and_t(i))
        for name in ("losses", "inner.history"):
            a, b = (operator.attrgetter(name)(model) for model in (plain, static))
            assert_alike(facts_of(a, {}), facts_of(b, {}), f"call {i} {name}")
    assert statistics_of(static).replays == 6


# --- audits, threads ------------------------------------------------------------------------------
@pytest.mark.parametrize("forward", STATIC, ids=lambda f: f.__name__)
def test_audits_find_nothing(forward):
    static = sdbr.static_graph(Keeping(forward))
    with warnings.catch_warnings(), chainer.using_config("sdbr_audit", 1.0), reporting(static):
        warnings.simplefilter("error", sdbr.SdbrWarning)
        for i in range(CALLS):
            iteration(static, i)
    audits = static.schedule_manager.audits
    assert audits.passed and not audits.failed


def test_audits_put_back_what_is_added_however_much_is_there():
    models = Keeping(hidden), sdbr.static_graph(Keeping(hidden))
    many = [chainer.Variable(np.zeros(1, "f"))] * 10_000 + list(range(20_000))
    for model in models:
        model.others = [[i] for i in range(30_000)]
        model.history = list(many)
    with chainer.using_config("sdbr_audit", 1.0):
        for i in range(CALLS):
            for model in models:
                model(*x_and_t(i))
    added = [model.history[len(many) :] for model in models]
    assert_alike(facts_of(added[0], {}), facts_of(added[1], {}), "added")
    audits = models[1].schedule_manager.audits
    assert audits.passed and not audits.failed


def test_threads_add_what_they_compute():
    static = sdbr.static_graph(Keeping(number))
    want = [float(Keeping(number)(*x_and_t(i)).array) for i in range(4)]
    for i in range(3):
        static(*x_and_t(i))
    static.history.clear()

    def work(k):
        for _ in range(25):
            static(*x_and_t(k))

    in_threads(4, work)
    assert_near(np.sort(static.history), np.sort(want * 25), RESULTS, "history")
