"""Which form of a graph is taken: runs of the user's are timed, in one form after the other."""

import contextlib
import gc
import re
import warnings
from unittest import mock

from sdbr.backends.cuda.recording import contest, costs, forms
from sdbr.base.errors import BackendError, SdbrWarning
from sdbr.devices.driver import Device, Driver

import chainer
import numpy as np
import pytest

from tests.harness import device
from tests.harness.comparison import assert_all_near, state_of
from tests.harness.launched import LSTM, WORDS, Recurrent
from tests.harness.steps import BATCH, OPTIMIZERS, classifier, compare, train
from tests.tolerances import SUMS

ALL = len(forms.FORMS)
#: Steps till it is over: the first is define-by-run, and the last learns that the device is done.
ENOUGH = 1 + contest.WARM + ALL * contest.ROUNDS + 1


@pytest.fixture(autouse=True)
def timed():
    """As without the settings of tests."""
    with chainer.using_config("sdbr_tune", True):
        yield


@contextlib.contextmanager
def costing(kernel, saved=0):
    """Milliseconds of each kernel, and how many fewer of one that begins early."""
    for name, value in (("kernel_costs", kernel), ("early_saves", saved)):
        device.setting(name).value = value
    try:
        yield
    finally:
        for name in ("kernel_costs", "early_saves"):
            device.setting(name).value = 0


def trained(steps=ENOUGH, form="auto", **options):
    with device.simulated(form=form) as made:
        compare(Recurrent, WORDS, OPTIMIZERS["adam"], backend=device.NAME, steps=steps, **options)
    return made[-1]


def form_of(step):
    return step.program.forms[0].split(",")[0]


@pytest.mark.parametrize(
    ("kernel", "saved", "want"),
    [
        (10, 0, "branches"),
        (10, 9, "programmatic"),
        (10, 3, "programmatic branches"),
        (0, 0, "graph"),  # nothing is faster
    ],
)
def test_the_fastest_is_taken(kernel, saved, want):
    with costing(kernel, saved):
        step = trained()
    assert form_of(step) == want
    assert step.graphs.contests == {}
    for name in forms.FORMS:  # all were timed
        assert re.search(rf"\b{name} \d+\.\d us", step.program.forms[0])


def test_what_gains_too_little_is_not_taken():
    with costing(1000, 10), mock.patch.object(costs, "could_gain", lambda *args: False):
        step = trained()
    assert form_of(step) == "graph"
    assert "programmatic" in step.program.forms[0] and "branches" not in step.program.forms[0]


def test_nothing_is_tried_before_it_is_worth_it():
    gc.collect()
    before = device.setting("graphs").value
    step = trained(1 + contest.WARM)
    assert device.setting("graphs").value == before + 1
    assert list(step.graphs.contests) == [0]
    assert step.recorded == 2  # the second time since the batch moves


def test_only_the_winner_is_kept():
    trained(2)  # what there is once for each device stays
    gc.collect()
    before = device.balance()
    with costing(10):
        step = trained()
    gc.collect()
    assert device.setting("graphs").value == before["graphs"] + 1
    assert device.setting("events").value == before["events"]
    del step
    gc.collect()
    assert device.balance() == before


def test_streams_and_memory_of_branches_that_lost_are_given_back():
    def held(form):
        gc.collect()
        with device.by_library() as races, device.simulated(form=form, races=races) as made:
            settings = {"backend": device.NAME, "steps": ENOUGH}
            compare(LSTM, WORDS, OPTIMIZERS["adam"], **settings)
            gc.collect()
            return made[-1].program.forms[0], len(made[-1].launching.rooms), device.balance()

    (_, *alone), (tried, *after) = held("graph"), held("auto")
    assert tried.startswith("graph, of") and " branches " in tried
    assert after == alone


def test_nobody_waits_and_steps_are_those_of_one_form():
    """As many launches as steps, and the numbers of the form that is always there."""

    def run(form):
        # Whether an audit is made, which waits, depends on the time that is left for it.
        audits = chainer.using_config("sdbr_audit", "off")
        with audits, device.simulated(form=form):
            records, model, _ = train(
                Recurrent, WORDS, OPTIMIZERS["adam"], static=True, steps=ENOUGH + 5,
                backend=device.NAME,
            )  # fmt: skip
        return records, model.schedule_manager.statistics

    found = {}
    for form in ("graph", "auto"):
        gc.collect()  # what others have left waits when it goes
        before = [device.setting(name).value for name in ("graph_launches", "waits")]
        found[form] = run(form)
        after = [device.setting(name).value for name in ("graph_launches", "waits")]
        found[form] += ([b - a for a, b in zip(before, after, strict=True)],)
    (want, _, launched), (got, statistics, others) = found["graph"], found["auto"]
    assert statistics.replays == ENOUGH + 4
    assert launched == others
    for one, other in zip(got, want, strict=True):
        for key in one["state"]:
            np.testing.assert_array_equal(one["state"][key], other["state"][key])


def test_arrays_that_move_meanwhile():
    """All is recorded again, and the contest begins anew; once it is over its result stays."""

    def each(model, optimizer, i):
        for p, when in zip(model.params(), (8, ENOUGH + 12), strict=False):
            if i == when:
                p.array = p.array.copy()

    with costing(10):
        step = trained(ENOUGH + 10, each=each)
        assert (form_of(step), step.recorded) == ("branches", 3)
        step = trained(ENOUGH + 10 + 4, each=each)
    assert (form_of(step), step.recorded, step.graphs.contests) == ("branches", 4, {})


def test_by_name():
    for name in forms.FORMS:
        with costing(10, 9):
            step = trained(ENOUGH, form=name)
        assert step.program.forms == {0: name}
        assert step.recorded == 2


def test_kernels_one_by_one_are_no_reason_for_a_warning():
    before = device.setting("graph_launches").value
    with warnings.catch_warnings():
        warnings.simplefilter("error", SdbrWarning)
        step = trained(6, form="kernels")
    assert (step.recorded, step.program.forms, step.program.uncaptured) == (0, {}, {})
    assert device.setting("graph_launches").value == before


@pytest.mark.parametrize("value", ["fast", "", None, 3])
def test_no_such_form(value):
    wrong = pytest.raises(ValueError, match=r"sdbr_launch .*: expected one of auto, kernels")
    with wrong:
        chainer.using_config("sdbr_launch", value)


def test_the_setting_is_the_form():
    with chainer.using_config("sdbr_launch", "branches"):
        assert trained(4, form=None).program.forms == {0: "branches"}
    with chainer.using_config("sdbr_tune", False):  # nothing is timed
        assert trained(ENOUGH).graphs.contests == {}


@pytest.mark.parametrize(("name", "value"), [("major", 8), ("version", 12020)])
def test_older_ones_have_no_programmatic_launches(name, value):
    variable = device.setting(name)
    before, variable.value = variable.value, value
    try:
        older = Device(Driver(device.device().driver._library._name))
        assert [x.name for x in forms.others("auto", older)] == ["branches"]
        with (
            chainer.using_config("sdbr_launch", "programmatic"),
            pytest.raises(BackendError, match=r"sm_90 or later.*12\.3.*this is sm_"),
        ):
            forms.wanted(older)
    finally:
        variable.value = before


CALLS = (
    "cuEventCreate", "cuEventRecord", "cuEventQuery", "cuEventElapsedTime", "cuStreamCreate",
    "cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags",
    "cuStreamWaitEvent", "cuLaunchKernelEx", "cuGraphExecDestroy", "cuEventDestroy_v2",
)  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_what_fails_while_forms_are_tried(name):
    """The steps go on as if nothing had been tried, and what it was is said."""
    steps = ENOUGH + 2
    want, _, _ = train(classifier, BATCH, OPTIMIZERS["adam"], static=False, steps=steps)
    for n in (1, 2, 3, 7):
        seen = []

        def each(model, optimizer, i, seen=seen, n=n):
            if i == contest.WARM:
                seen.append(device.failing(name, n, 999 if name == "none" else 1))
                seen.append(seen[0].__enter__())

        with device.simulated(form="auto") as made:
            got, model, _ = train(
                classifier, BATCH, OPTIMIZERS["adam"], static=True, steps=steps,
                backend=device.NAME, each=each,
            )  # fmt: skip
        seen[0].__exit__(None, None, None)
        for i, (one, other) in enumerate(zip(got, want, strict=True)):
            assert_all_near(one["state"], other["state"], SUMS * (1 + i / 5), f"step {i}")
        statistics = model.schedule_manager.statistics
        assert (statistics.replays, statistics.python_ops) == (steps - 1, 0)
        if seen[1]() and not name.endswith(("Destroy", "Destroy_v2")):
            assert re.search(rf"{name}: error 1", made[0].program.forms[0]), made[0].program.forms
        assert made[0].graphs.contests == {}
        assert state_of(model)
