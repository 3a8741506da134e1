"""Row 10: what a call writes in place into arrays of links lies there as in define-by-run."""

from __future__ import annotations

import warnings

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F

from tests.harness.comparison import BACKENDS, assert_near
from tests.harness.lasting_programs import (
    PROGRAMS,
    WEIGHTS,
    D,
    Held,
    K,
    N,
    Twins,
    behind_a_question,
    followed_in_place,
    followed_slowly,
    loss_behind_a_question,
    loss_of_running_mean,
    loss_of_slots,
    loss_with_python,
    replaced_behind,
    x_of,
)
from tests.harness.numbers import BY_VALUE
from tests.harness.threads import in_threads
from tests.harness.twins import statistics_of
from tests.tolerances import GRADIENTS, RESULTS


def state(model) -> dict:
    found = {name: getattr(model, name) for name in ("a", "b", "table", "flat", "count")}
    found.update((name, p.array) for name, p in model.namedparams())
    return {name: array.copy() for name, array in found.items()}


def both(forward, calls, replays, dynamic=False, **options):
    """Run ``calls(model)``, which gives arrays, on a plain and a static model; compare all."""
    plain, static = Held(forward), sdbr.static_graph(Held(forward), **options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", sdbr.SdbrWarning)
        want, have = calls(plain), calls(static)
    said = [str(w.message) for w in caught if issubclass(w.category, sdbr.SdbrWarning)]
    assert bool(said) == dynamic, said
    assert len(want) == len(have)
    for n, (x, y) in enumerate(zip(want, have, strict=True)):
        assert_near(np.asarray(y), np.asarray(x), RESULTS, f"array {n}")
    before, after = state(plain), state(static)
    for name, x in before.items():
        assert_near(after[name], x, RESULTS, name)
    assert statistics_of(static).replays == replays
    return plain, static


def several(model, n=5) -> list:
    """Some calls, each with its backward and what it has left behind."""
    found = []
    for i in range(n):
        y = model(x_of(i))
        model.cleargrads()
        F.sum(y).backward()
        found += [y.array, model.l.W.grad.copy(), *state(model).values()]
    return found


# --- what was read before -------------------------------------------------------------------------


# --- kinds of arrays and writes -------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"memory": "low"}], ids=["high", "low"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("forward", PROGRAMS, ids=lambda f: f.__name__)
def test_what_was_read_before_a_write_is_what_it_was(forward, backend, options):
    if BY_VALUE and forward.__name__ == "by_itself":
        pytest.skip("NumPy 1 reads what it has written there")
    replays = 3 if forward is behind_a_question else 4  # two ways, each traced once
    both(forward, several, replays, backend=backend, **options)


# --- who else has the memory ----------------------------------------------------------------------
def accumulated(self, x):
    self.a += x[0, :D]
    return self.l(x[:, :D]) * self.a


def given_alone(model) -> list:
    """What the arrays of a model are given as arguments in turn."""
    x = np.ones((1, D), "f")
    y = [model(x).array for _ in range(3)]
    y.append(model(model.a[None]).array)  # the very memory that is written
    y += [model(x).array for _ in range(2)]
    return y


def test_an_argument_that_is_the_array_that_is_written():
    both(accumulated, given_alone, 2, dynamic=True)


def test_an_argument_that_overlaps_by_strides():
    def calls(model):
        memory = np.arange(3 * D, dtype="f")
        model.a = memory[D : 2 * D]
        apart = np.ones((1, 2 * D), "f")[:, ::2]
        y = [model(apart).array for _ in range(3)]
        y.append(model(memory[None, ::2][:, :D]).array)
        return y + [model(apart).array for _ in range(2)]

    both(accumulated, calls, 0, dynamic=True)  # a part of what nobody has the whole of

    def later(model):
        apart = np.ones((1, 2 * D), "f")[:, ::2]
        y = [model(apart).array for _ in range(3)]
        memory = model.a
        y.append(model(np.lib.stride_tricks.as_strided(memory, (1, D), (4, 0))).array)
        return y + [model(apart).array for _ in range(2)]

    both(accumulated, later, 2, dynamic=True)


def test_an_array_that_was_put_in_place_of_another():
    def calls(model):
        found = []
        for i in range(8):
            if i == 3:
                first, model.a = model.a, np.full(D, 7, "f")
            if i == 5:
                model.a = model.b  # which nobody else reads
            if i == 6:
                model.a = first
            found += [model(x_of(i)).array, model.a.copy(), model.b.copy()]
        return found

    both(accumulated, calls, 7)


def two(self, x):
    self.a += x[0]
    return self.l(x) * (self.a + self.b)


def test_two_attributes_that_become_one_array():
    def calls(model):
        found = []
        for i in range(8):
            if i == 3:
                model.b = model.a
            if i == 6:
                model.b = model.a.copy()
            found += [model(x_of(i)).array, model.a.copy(), model.b.copy()]
        return found

    plain, static = Held(two), sdbr.static_graph(Held(two))
    for x, y in zip(calls(plain), calls(static), strict=True):
        assert_near(y, x, RESULTS, "array")


def test_two_attributes_that_no_longer_are_one_array():
    def calls(model):
        model.b = model.a
        found = []
        for i in range(8):
            if i == 4:
                model.b = model.a.copy()
            found += [model(x_of(i)).array, model.a.copy(), model.b.copy()]
        return found

    both(two, calls, 6)


def test_an_attribute_that_shows_a_part():
    def calls(model):
        found = []
        for i in range(8):
            if i == 3:
                model.b = model.flat[0]
                model.a = model.flat[0]
            found += [model(x_of(i)).array, model.a.copy(), model.flat.copy()]
        return found

    plain, static = Held(two), sdbr.static_graph(Held(two))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdbr.SdbrWarning)
        for x, y in zip(calls(plain), calls(static), strict=True):
            assert_near(y, x, RESULTS, "array")


def test_an_array_that_becomes_a_column():
    def calls(model):
        found = []
        for i in range(8):
            if i == 3:
                model.a = np.ones((D, 2), "f")[:, 0]
            found += [model(x_of(i)).array, model.a.copy()]
        return found

    both(accumulated, calls, 2, dynamic=True)


def test_augmented_assignment_leaves_nothing_to_assign():
    static = sdbr.static_graph(Held(accumulated))
    for i in range(3):
        static(x_of(i))
    (schedule,) = static.schedule_manager.schedules.popitem()[1]
    assert not schedule.trace.writes and len(schedule.trace.lasting) == 1


def test_an_array_that_must_not_be_written():
    static = sdbr.static_graph(Held(accumulated))
    for i in range(3):
        static(x_of(i))
    before = static.a.copy()
    static.a.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        static(x_of(3))
    assert np.array_equal(static.a, before)


# --- when it is seen ------------------------------------------------------------------------------
def test_a_backward_sees_what_later_calls_have_written():
    def calls(model):
        found = []
        for i in range(3):
            ys = [model(x_of(3 * i + k)) for k in range(3)]
            for y in (ys[1], ys[0], ys[2]):
                model.cleargrads()
                F.sum(y).backward()
                found += [model.l.W.grad.copy(), model.l.b.grad.copy()]
            found.append(model.a.copy())
        return found

    both(accumulated, calls, 8)


def test_whoever_holds_the_array_sees_it():
    static = sdbr.static_graph(Held(accumulated))
    mine, view = static.a, static.a[1:]
    for i in range(4):
        before = mine.copy()
        static(x_of(i))
        assert static.a is mine
        assert np.allclose(mine, before + x_of(i)[0])
        assert np.array_equal(view, mine[1:])
    assert statistics_of(static).replays == 3


def labelled(self, x, t):
    self.a += x.mean(0)
    y = F.select_item(self.l(x), t)
    self.b += x.mean(0)
    return y


def test_an_error_leaves_what_was_written_before_it():
    plain, static = Held(labelled), sdbr.static_graph(Held(labelled))
    right, wrong = np.zeros(N, "i"), np.full(N, 9, "i")
    for i in range(6):
        for model in (plain, static):
            if i == 3:
                with pytest.raises(IndexError):
                    model(x_of(i), wrong)
            else:
                model(x_of(i), right)
        for name, x in state(plain).items():
            assert_near(state(static)[name], x, RESULTS, f"call {i}: {name}")
    assert statistics_of(static).replays == 4


@sdbr.static_code
def total(link):
    return np.array([link.a.sum()])


def looked_at(self, x):
    self.a[...] = x.mean(0)
    y = total(self)
    self.a[...] = 2 * self.a
    return self.l(x) * y


def test_static_code_looks_at_the_array_at_its_time():
    plain, static = Held(looked_at), sdbr.static_graph(Held(looked_at))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdbr.SdbrWarning)
        for x, y in zip(several(plain), several(static), strict=True):
            assert_near(np.asarray(y), np.asarray(x), RESULTS, "array")


kept = []


@sdbr.static_code
def keep(array):
    kept.append(array)


def given_to_code(self, x):
    self.a += x[0]
    keep(self.a)
    return self.l(x) * self.a


def test_static_code_gets_the_array_itself():
    kept.clear()
    static = sdbr.static_graph(Held(given_to_code))
    with pytest.warns(sdbr.SdbrWarning, match="keep is given an array that was written in place"):
        for i in range(4):
            static(x_of(i))
    assert all(x is static.a for x in kept)


def test_without_a_graph():
    def calls(model):
        found = []
        with chainer.using_config("train", False), chainer.no_backprop_mode():
            for i in range(5):
                found += [model(x_of(i)).array, model.a.copy()]
        return found

    both(accumulated, calls, 4)
    both(replaced_behind, calls, 4)


def test_modes_in_turn():
    def only_in_training(self, x):
        if chainer.config.train:
            self.a += x[0]
        return self.l(x) * self.a

    def calls(model):
        found = []
        for i in range(8):
            with chainer.using_config("train", i % 3 > 0):
                found += [model(x_of(i)).array, model.a.copy()]
        return found

    both(only_in_training, calls, 6)


def test_a_gradient_penalty():
    def penalized(self, x):
        self.a += x.array.mean(0)
        return F.sum(F.tanh(self.l(x)) * self.a)

    def calls(model):
        found = []
        for i in range(4):
            x = chainer.Variable(x_of(i))
            y = model(x)
            (g,) = chainer.grad([y], [x], enable_double_backprop=True)
            model.cleargrads()
            F.sum(g**2).backward()
            found += [g.array, model.l.W.grad.copy(), model.a.copy()]
        return found

    both(penalized, calls, 3, enable_double_backprop=True)


# --- whole steps ----------------------------------------------------------------------------------


@pytest.mark.parametrize("audit", ["off", 1.0])
@pytest.mark.parametrize(
    "forward",
    [loss_of_running_mean, loss_of_slots, loss_behind_a_question, loss_with_python],
    ids=lambda f: f.__name__,
)
def test_whole_steps(forward, audit):
    plain, static = Held(forward), sdbr.static_graph(Held(forward), on_dynamic="raise")
    one = chainer.optimizers.Adam().setup(plain)
    other = sdbr.static_optimizer(chainer.optimizers.Adam()).setup(static)
    arrays = static.a, static.table
    with chainer.using_config("sdbr_audit", audit):
        for i in range(8):
            one.update(plain, x_of(i))
            other.update(static, x_of(i))
            for name, x in state(plain).items():
                assert_near(state(static)[name], x, GRADIENTS, f"step {i}: {name}")
    assert static.a is arrays[0] and static.table is arrays[1]
    assert statistics_of(static).steps >= 5
    assert not static.schedule_manager.audits.failed


# --- parameters -----------------------------------------------------------------------------------


def weights(model) -> dict:
    return {name: p.array.copy() for name, p in model.namedparams()}


@pytest.mark.parametrize("audit", ["off", 1.0])
@pytest.mark.parametrize("options", [{}, {"memory": "low"}, {"backend": "numpy"}])
@pytest.mark.parametrize("rule", [chainer.optimizers.Adam, chainer.optimizers.SGD])
@pytest.mark.parametrize("forward", WEIGHTS, ids=lambda f: f.__name__)
def test_weights_that_are_written_in_whole_steps(forward, rule, options, audit):
    plain = Twins(forward)
    static = sdbr.static_graph(Twins(forward), on_dynamic="raise", **options)
    one, other = rule().setup(plain), sdbr.static_optimizer(rule()).setup(static)
    firsts = [p.array for p in static.params()]
    with chainer.using_config("sdbr_audit", audit):
        for i in range(6):
            one.update(plain, x_of(i))
            other.update(static, x_of(i))
            for name, x in weights(plain).items():
                assert_near(weights(static)[name], x, GRADIENTS, f"step {i}: {name}")
    assert all(p.array is x for p, x in zip(static.params(), firsts, strict=True))
    assert statistics_of(static).steps == 5 and not static.schedule_manager.audits.failed


@pytest.mark.parametrize("audit", ["off", 1.0])
@pytest.mark.parametrize("forward", WEIGHTS, ids=lambda f: f.__name__)
def test_weights_that_are_written_in_calls(forward, audit):
    plain, static = Twins(forward), sdbr.static_graph(Twins(forward), on_dynamic="raise")
    with chainer.using_config("sdbr_audit", audit):
        for i in range(6):
            ys = []
            for model in (plain, static):
                y = [model(x_of(2 * i)), model(x_of(2 * i + 1))]
                model.cleargrads()
                (y[0] * 2 + y[1]).backward()
                ys.append([y[0].array, *[p.grad for p in model.params() if p.grad is not None]])
                ys[-1] += weights(model).values()
            assert len(ys[0]) == len(ys[1])
            for n, (x, y) in enumerate(zip(*ys, strict=True)):
                assert_near(y, x, GRADIENTS, f"call {i}: {n}")
    statistics = statistics_of(static)
    assert statistics.replays == 11 and not statistics.python_ops
    assert not static.schedule_manager.audits.failed


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("writes", [False, True])
def test_an_attribute_that_is_the_array_of_a_parameter(writes, first):
    def looked_at(self, x):
        y = 0 if first else self.q(x)
        w = self.mine
        if writes:
            self.q.W.array *= 0.9
        return F.sum(self.q(x) + y) * w.sum()

    plain, static = Twins(looked_at), sdbr.static_graph(Twins(looked_at))
    for model in (plain, static):
        model.mine = model.q.W.array
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdbr.SdbrWarning)
        for i in range(5):
            y, z = plain(x_of(i)), static(x_of(i))
            assert_near(z.array, y.array, RESULTS, f"call {i}")
            assert_near(static.q.W.array, plain.q.W.array, RESULTS, f"weights {i}")
    assert statistics_of(static).replays == (0 if writes else 4)


def test_weights_that_become_others():
    def calls(model):
        found = []
        for i in range(12):
            if i == 2:
                model.slow.W.array = np.asfortranarray(model.slow.W.array)
            if i == 4:
                model.slow.W.array = np.ones((K, D), "f")
            if i == 6:
                model.slow.W.array = model.q.W.array
            if i == 8:
                model.slow.W.array = model.q.W.array.copy()
            if i == 9:
                model.q.W.array = np.ones((2 * K, D), "f")[::2]
            found += [model(x_of(i)).array, *weights(model).values()]
        return found

    plain, static = Twins(followed_slowly), sdbr.static_graph(Twins(followed_slowly))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdbr.SdbrWarning)
        for n, (x, y) in enumerate(zip(calls(plain), calls(static), strict=True)):
            assert_near(y, x, RESULTS, f"{n}")


def test_weights_under_second_derivatives_are_dynamic():
    static = sdbr.static_graph(Twins(followed_in_place), enable_double_backprop=True)
    with pytest.warns(sdbr.SdbrWarning, match="not static"):
        static(x_of(0))


# --- audits, threads ------------------------------------------------------------------------------
def test_audits_put_back_what_is_written_however_large():
    def calls(model):
        found = []
        with chainer.using_config("sdbr_audit", 1.0):
            for i in range(5):
                found += [model(x_of(i)).array, model.a[:8].copy()]
        return found

    def written(self, x):
        self.a += x.mean()
        return self.l(x) * self.a[:D]

    plain, static = Held(written, 1 << 21), sdbr.static_graph(Held(written, 1 << 21))
    with warnings.catch_warnings():
        warnings.simplefilter("error", sdbr.SdbrWarning)
        for x, y in zip(calls(plain), calls(static), strict=True):
            assert_near(y, x, RESULTS, "array")
    audits = static.schedule_manager.audits
    assert audits.passed and not audits.failed
    assert statistics_of(static).replays == 4


def test_audits_know_what_is_written_again_and_again():
    def written(self, x):
        self.a[...] = np.tanh(np.roll(self.b, 1) * 3) + np.exp(self.b)  # each time the same
        self.l.b.array[...] = np.tanh(np.roll(self.b, 1) * 5) + np.exp(self.b)
        return self.l(x) * self.a

    static = sdbr.static_graph(Held(written), on_dynamic="raise")
    with warnings.catch_warnings(), chainer.using_config("sdbr_audit", 1.0):
        warnings.simplefilter("error", sdbr.SdbrWarning)
        for i in range(8):
            static.b[...] = np.random.RandomState(i // 4).randn(D)
            static(x_of(i))
    audits = static.schedule_manager.audits
    assert audits.passed and not audits.failed


def test_threads_leave_whole_writes():
    def counted(self, x):
        self.a[...] = x[0]
        return self.l(x) * 2

    static = sdbr.static_graph(Held(counted))
    plain = Held(counted)
    for i in range(3):
        static(x_of(i))
    problems = []

    def work(k):
        for i in range(50):
            x = x_of(k)
            if not np.allclose(static(x).array, plain(x).array, atol=RESULTS):
                problems.append((k, i))

    in_threads(4, work)
    assert not problems
    assert any(np.array_equal(static.a, x_of(k)[0]) for k in range(4))
