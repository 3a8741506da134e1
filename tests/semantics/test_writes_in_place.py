"""Row 10: arrays that a call makes and writes in place have a version for each write."""

from __future__ import annotations

import warnings

import sdbr
from sdbr.ops.table import OPS

import chainer
import numpy as np
import pytest
from chainer import functions as F

from tests.harness.comparison import (
    BACKENDS,
    assert_all_near,
    assert_near,
    copy_of,
    gradients_of,
    state_of,
)
from tests.harness.threads import in_threads
from tests.harness.twins import statistics_of
from tests.harness.writing_programs import (
    BY_NUMPY,
    DYNAMIC,
    NATIVE,
    D,
    K,
    N,
    Writing,
    given,
    histogram,
    normalized_copy,
    one_hot,
    padded_labels,
    replay_target,
    sorted_in_place,
    view_read_before_and_after,
)
from tests.tolerances import GRADIENTS, RESULTS

# --- how they are run ---------------------------------------------------------------------------


def iteration(model, i) -> dict:
    """One iteration, and all that a user can see of it, what was written to the arguments too."""
    x, t = given(i)
    np.random.seed(i)
    with np.errstate(all="ignore"):
        result = model(x, t)
    found = {}
    parts = result if isinstance(result, tuple) else (result,)
    for n, part in enumerate(parts):
        found[f"result {n}"] = copy_of(getattr(part, "array", part))
    model.cleargrads()
    F.sum(parts[0] * parts[0]).backward()
    found.update(gradients_of(model))
    found.update(state_of(model), x=x, t=t, drawn=np.random.rand(2))
    return found


def models(forward, **options):
    np.random.seed(0)
    plain = Writing(forward)
    return plain, sdbr.static_graph(plain.copy(mode="copy"), **options)


def compared(plain, static, times):
    for i in range(times):
        want, got = iteration(plain, i), iteration(static, i)
        assert_all_near(got, want, GRADIENTS, f"iteration {i}")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("forward", NATIVE, ids=lambda f: f.__name__)
def test_writes_are_native(forward, backend):
    plain, static = models(forward, on_dynamic="raise", backend=backend)
    compared(plain, static, 8)
    statistics = statistics_of(static)
    assert statistics.replays >= 5 and statistics.define_by_run_calls == 0
    assert statistics.python_ops == 0


@pytest.mark.parametrize("forward", BY_NUMPY, ids=lambda f: f.__name__)
def test_writes_that_numpy_makes_replay(forward):
    plain, static = models(forward, on_dynamic="raise")
    compared(plain, static, 8)
    statistics = statistics_of(static)
    assert statistics.replays >= 5 and statistics.define_by_run_calls == 0


@pytest.mark.parametrize("forward", DYNAMIC, ids=lambda f: f.__name__)
def test_writes_that_others_would_see_are_dynamic(forward):
    plain, static = models(forward)
    with pytest.warns(sdbr.SdbrWarning):
        compared(plain, static, 5)
    assert statistics_of(static).replays == 0


# --- everything else ----------------------------------------------------------------------------
STEPS = [padded_labels, replay_target, normalized_copy, histogram, view_read_before_and_after]


@pytest.mark.parametrize("forward", [*STEPS, sorted_in_place], ids=lambda f: f.__name__)
def test_writes_in_whole_steps(forward):
    plain, static = models(forward, on_dynamic="raise")
    ours = sdbr.static_optimizer(chainer.optimizers.Adam()).setup(static)
    theirs = chainer.optimizers.Adam().setup(plain)
    for i in range(6):
        for model, optimizer in ((plain, theirs), (static, ours)):
            optimizer.update(model, *given(i))
        assert_all_near(state_of(static), state_of(plain), GRADIENTS, f"step {i}")
    statistics = statistics_of(static)
    assert statistics.steps >= 4 and statistics.define_by_run_calls == 0


@pytest.mark.parametrize("forward", [*NATIVE, *BY_NUMPY], ids=lambda f: f.__name__)
def test_audits_find_nothing(forward):
    plain, static = models(forward, on_dynamic="raise")
    with chainer.using_config("sdbr_audit", 1e9), warnings.catch_warnings():
        warnings.simplefilter("error", sdbr.SdbrWarning)
        compared(plain, static, 5)
    assert statistics_of(static).replays >= 2


@pytest.mark.parametrize("forward", STEPS, ids=lambda f: f.__name__)
def test_two_calls_before_their_backwards(forward):
    plain, static = models(forward, on_dynamic="raise")
    for i in range(6):
        found = []
        for model in (plain, static):
            first, second = model(*given(i)), model(*given(i + 1))
            model.cleargrads()
            first.backward()
            (second * 2).backward()
            found.append({"y": copy_of(first.array), **gradients_of(model)})
        assert_all_near(found[1], found[0], GRADIENTS, f"iteration {i}")
    assert statistics_of(static).replays >= 8


def test_second_derivatives_through_what_was_written():
    def forward(self, x, t):
        weights = np.ones((N, 1), "f")
        weights[t == -1] = 0.5
        return F.sum(F.tanh(self.l(x)) * weights)

    plain, static = models(forward, on_dynamic="raise", enable_double_backprop=True)
    for i in range(5):
        found = []
        for model in (plain, static):
            x, t = given(i)
            x = chainer.Variable(x)
            y = model(x, t)
            (gx,) = chainer.grad([y], [x], enable_double_backprop=True)
            model.cleargrads()
            F.sum(gx * gx).backward()
            found.append({"gx": copy_of(gx.array), **gradients_of(model.l)})
        assert_all_near(found[1], found[0], GRADIENTS, f"iteration {i}")
    assert statistics_of(static).replays >= 3


def test_threads_write_to_arrays_of_their_own():
    plain, static = models(normalized_copy, on_dynamic="raise")
    want = [copy_of(plain(*given(i)).array) for i in range(8)]
    for i in range(3):
        static(*given(i))
    found: dict[int, list] = {}

    def work(i):
        found[i] = [copy_of(static(*given(i)).array) for _ in range(50)]

    in_threads(4, work)
    for i, ys in found.items():
        for y in ys:
            assert_near(y, want[i], RESULTS, f"thread {i}")
    assert sorted(found) == [0, 1, 2, 3]


def of_a_wrong_shape(x, t):
    h = x.copy()
    h[x[:, :2] > 0] = 1


def that_does_not_broadcast(x, t):
    h = x.copy()
    h[:2] = x[:3]


def of_another_kind(x, t):
    n = t.copy()
    n += x[:, 0]


def read_only(x, t):
    h = x.copy()
    h.flags.writeable = False
    h[0] = x[1]


def a_broadcast_view(x, t):
    h = np.broadcast_to(x[0].copy(), (3, D))
    h += 1


ERRORS = [of_a_wrong_shape, that_does_not_broadcast, of_another_kind, read_only, a_broadcast_view]


@pytest.mark.parametrize("wrong", ERRORS, ids=lambda f: f.__name__)
def test_errors_of_writes_are_those_of_numpy(wrong):
    def forward(self, x, t):
        wrong(x, t)
        return F.sum(self.l(x))

    plain, static = models(forward)
    told = []
    for model in (plain, static):
        for i in range(3):
            with pytest.raises(Exception) as caught:
                model(*given(i))
            told.append((type(caught.value), str(caught.value)))
    assert told[:3] == told[3:]


def test_an_index_that_is_too_large_is_an_error_of_the_replay():
    plain, static = models(one_hot, on_dynamic="raise")
    compared(plain, static, 3)
    x, t = given(3)
    t[1] = K
    for model in (plain, static):
        with pytest.raises(IndexError, match=f"index {K} .*{K}"):
            model(x, t)
    before = statistics_of(static).replays
    compared(plain, static, 3)
    assert statistics_of(static).replays == before + 3


def test_arrays_of_the_caller_are_not_written():
    _, static = models(normalized_copy, on_dynamic="raise")
    for i in range(5):
        x, t = given(i)
        static(x, t)
        np.testing.assert_array_equal(x, given(i)[0])


def test_a_write_in_a_branch_on_values():
    def forward(self, x, t):
        h = x.copy()
        if x[0, 0] > 0:
            h[1:] = 0
        h *= 2
        return F.sum(self.l(h) ** 2)

    plain, static = models(forward, on_dynamic="raise")
    compared(plain, static, 8)
    assert statistics_of(static).replays >= 5


def test_an_empty_array_that_is_filled_needs_no_agreement_about_what_was_in_it():
    def forward(self, x, t):
        h = np.empty((N, D), "f")
        h[:, :2] = x[:, 2:]
        h[:, 2:] = 1
        return F.sum(self.l(h) ** 2)

    plain, static = models(forward, on_dynamic="raise")
    compared(plain, static, 6)
    assert statistics_of(static).replays >= 3


def test_memory_that_is_written_step_by_step_is_copied_once():
    def forward(self, x, t):
        h = np.zeros((N, 20, D), "f")
        for i in range(20):
            h[:, i] = x * i
        return F.sum(self.l(h.sum(axis=1)))

    _, static = models(forward, on_dynamic="raise")
    for i in range(3):
        static(*given(i))
    ((schedule,),) = static.schedule_manager.schedules.values()
    program = schedule.programs["forward"]
    places = []
    for i, opcode in enumerate(program.opcodes):
        ins, outs = program.operands_of(i)
        if OPS[opcode].name == "copy" and program.row_shape(outs[0]) == (N, 20, D):
            places.append([program.rows["offset"][row] for row in (*ins, *outs)])
    assert len(places) == 20
    assert all(x == y for x, y in places[1:])


def test_a_copy_of_an_argument_stays_between_forward_and_backward():
    """The user writes to the argument by then; the function has kept the copy."""

    def forward(self, x, t):
        a, b, c = x.copy(), np.array(x), x.astype("f")
        h = self.l(x).array.copy()
        return self.l(x * 1) * a * b * c * h

    plain, static = models(forward, on_dynamic="raise")
    for i in range(4):
        found = []
        for model in (plain, static):
            x, t = given(i)
            y = model(x, t)
            x[...] = 0
            model.cleargrads()
            F.sum(y).backward()
            found.append(gradients_of(model.l))
        assert_all_near(found[1], found[0], GRADIENTS, f"iteration {i}")
    statistics = statistics_of(static)
    assert statistics.replays >= 3 and statistics.python_ops == 0
