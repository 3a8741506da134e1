"""explain names what was traced, what is native, what is not and why."""

import gc
import json
import random
import time
import warnings

import sdbr
from sdbr.backends.cpu import _kernels

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest

from .networks import Net, batch, trained, triple


def facts_of(obj):
    report = sdbr.explain(obj)
    facts = report.to_dict()
    assert json.loads(json.dumps(facts)) == facts
    assert str(report)
    return facts


def test_untraced_things_say_so():
    net = Net()
    assert "nothing static" in str(sdbr.explain(net))
    static = sdbr.static_graph(net)
    assert "not traced yet" in str(sdbr.explain(static))
    assert "not traced yet" in str(sdbr.explain(L.Classifier(static)))
    assert "not traced yet" in str(sdbr.explain(sdbr.static_graph(lambda x: x)))
    optimizer = chainer.optimizers.SGD()
    assert "plain optimizer" in str(sdbr.explain(optimizer))
    assert "no update was made" in str(sdbr.explain(sdbr.static_optimizer(optimizer)))


@pytest.mark.parametrize("thing", [3, None, np.zeros(3), len])
def test_what_cannot_be_explained(thing):
    with pytest.raises(TypeError, match="obj: expected a link"):
        sdbr.explain(thing)


def test_whole_step():
    model, optimizer = trained()
    facts = facts_of(model)
    assert facts["simd"] == _kernels.simd_level()
    (manager,) = facts["managers"]
    assert manager["whole_step"] == {"native": True, "reason": None, "after": None}
    assert manager["statistics"] == model.schedule_manager.statistics.to_dict()
    assert manager["misses"] == []
    (schedule,) = manager["schedules"]
    assert schedule["arguments"] == [
        {"shape": [4, 3], "dtype": "float32", "variable": False, "requires_grad": False},
        {"shape": [4], "dtype": "int32", "variable": False, "requires_grad": False},
    ]
    assert (schedule["train"], schedule["enable_backprop"]) == (True, True)
    assert schedule["backend"] == "cython"
    assert 0 <= schedule["age_seconds"] < 600
    assert "networks.py" in schedule["line"]
    assert schedule["python_nodes"] == []
    programs = {p["name"]: p for p in schedule["programs"]}
    assert set(programs) == {"forward", "backward", "step"}
    step = programs["step"]
    assert step["ops_by_name"]["adam"] == 4
    assert (step["python_ops"], step["native_ops"]) == (0, step["ops"])
    assert 0 < step["arena_bytes"] <= step["bytes_without_reuse"]
    assert facts["optimizers"][0]["plan"] == "native: adam x 4"
    text = str(sdbr.explain(model))
    assert "whole step: native" in text
    assert "float32[4,3], int32[4]; train, backprop" in text
    assert len(text.splitlines()) < 25
    assert facts_of(optimizer)["managers"][0]["name"] == manager["name"]
    assert facts_of(model.schedule_manager)["managers"][0]["name"] == manager["name"]


def test_whole_steps_of_an_optimizer_that_is_gone():
    model, optimizer = trained()
    steps = model.schedule_manager.statistics.steps
    assert steps >= 3 and "whole step: native" in str(sdbr.explain(model))
    del optimizer
    gc.collect()
    text = str(sdbr.explain(model))
    assert f"whole step: {steps} so far, by an optimizer or a schedule that is gone" in text


def test_memory_without_reuse_is_what_the_debug_mode_takes():
    # The plan of the whole step goes when the collector finds its optimizer gone.
    model, optimizer = trained()
    debug, another = trained(memory="no_reuse")
    ours = facts_of(model)["managers"][0]["schedules"][0]["programs"]
    theirs = facts_of(debug)["managers"][0]["schedules"][0]["programs"]
    for a, b in zip(ours, theirs, strict=True):
        assert b["bytes_without_reuse"] == b["arena_bytes"] >= a["arena_bytes"]
        assert a["bytes_without_reuse"] == b["arena_bytes"]
    assert optimizer.target is model
    assert another.target is debug


def test_python_ops_with_reason_and_line():
    model, _ = trained(between=lambda h: triple(triple(h)))
    (manager,) = facts_of(model)["managers"]
    (schedule,) = manager["schedules"]
    labels = [node["label"] for node in schedule["python_nodes"]]
    assert labels == ["Triple", "Triple"]
    for node in schedule["python_nodes"]:
        assert node["reason"] == "no native code"
        assert "networks.py" in node["line"]
    forward = schedule["programs"][0]
    assert forward["python_ops"] == 2 == forward["ops_by_name"]["python"]
    assert "Python op Triple x 2: no native code" in str(sdbr.explain(model))


def test_dynamic_trace_with_its_line():
    def dynamic(h):
        if float(str(F.sum(h).array)) > 0:
            h = h * 2
        return h

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sdbr.SdbrWarning)
        model, _ = trained(between=dynamic)
    (manager,) = facts_of(model)["managers"]
    (schedule,) = manager["schedules"]
    assert "str()" in schedule["dynamic"]["reason"]
    assert "test_explain.py" in schedule["dynamic"]["line"]
    assert schedule["programs"] == []
    assert manager["whole_step"]["native"] is False
    assert sum(manager["define_by_run_reasons"].values()) == 4
    text = str(sdbr.explain(model))
    assert "runs define-by-run: a value left NumPy" in text
    assert "define-by-run x 4" in text


def test_misses_name_the_part_of_the_key():
    model, optimizer = trained()
    optimizer.update(model, *batch(6))
    with chainer.using_config("train", False):
        model(*batch())
    (manager,) = facts_of(model)["managers"]
    assert len(manager["schedules"]) == 3
    first, second = manager["misses"]
    assert first["differs"].startswith("argument 0: float32[4,3] -> float32[6,3]")
    assert "test_explain.py" in first["line"]
    assert second["differs"] == "chainer.config.train: True -> False"
    assert "traced anew 2 times" in str(sdbr.explain(model))


def test_calls_that_were_not_traced_are_no_traces():
    model = sdbr.static_graph(Net(lambda h: h * float(str(np.float32(h.array.max())))))
    with pytest.warns(sdbr.SdbrWarning, match="is not static"):
        for n in [*range(2, 12)] * 2:
            model(batch(n)[0])
    (manager,) = facts_of(model)["managers"]
    n = len(manager["misses"])
    assert n > manager["statistics"]["traces"]
    text = str(sdbr.explain(model))
    assert "traced anew" not in text
    assert f"the last {n} calls without a schedule had none because of" in text


def test_reason_why_there_is_no_whole_step():
    class Own(type(chainer.optimizers.SGD().create_update_rule())):
        """A rule of the user's."""

    class OwnSGD(chainer.optimizers.SGD):
        def create_update_rule(self):
            return Own(self.hyperparam)

    model, optimizer = trained(rule=OwnSGD)
    (manager,) = facts_of(model)["managers"]
    reason = "update rule Own has no native code, see sdbr.update_rule (4 times)"
    assert manager["whole_step"] == {"native": True, "reason": None, "after": reason}
    text = f"whole step: forward and backward; then the update, for {reason}"
    assert text in " ".join(str(sdbr.explain(model)).split())  # it has two lines there
    assert "Chainer:" in facts_of(optimizer)["optimizers"][0]["plan"]
    model.cleargrads = model.cleargrads
    optimizer.update(model, *batch())
    (manager,) = facts_of(model)["managers"]


def test_calls_that_are_switched_off():
    model, _ = trained()
    with chainer.using_config("use_static_graph", False):
        facts = facts_of(model)
        assert "use_static_graph" in facts["managers"][0]["off"]
        assert "would run define-by-run" in str(sdbr.explain(model))


def test_function_and_method():
    @sdbr.static_graph
    def double(x):
        return F.relu(x) * 2

    class WithMethod(Net):
        @sdbr.static_graph
        def predict(self, x):
            return F.softmax(self.forward(x))

    x, _ = batch()
    net = WithMethod()
    for _ in range(3):
        double(x)
        net.predict(x)
    assert facts_of(double)["managers"][0]["statistics"]["replays"] == 2
    assert facts_of(net.predict)["managers"][0]["name"] == "WithMethod.predict"
    assert facts_of(net)["managers"][0]["name"] == "WithMethod.predict"
    copied = net.copy()
    assert facts_of(copied)["managers"] == facts_of(copied.predict)["managers"] == []


def test_static_code_is_listed():
    @sdbr.static_code(func_name="look")
    def look(inputs):
        pass

    def between(h):
        look(inputs=[h.array])
        return h

    model, _ = trained(between)
    (node,) = facts_of(model)["managers"][0]["schedules"][0]["python_nodes"]
    assert (node["label"], node["reason"]) == ("static_code look", "code that runs every time")


def test_nothing_is_traced_or_counted_for_a_report():
    model, optimizer = trained()
    before = model.schedule_manager.statistics.to_dict()
    t = optimizer.t
    for thing in (model, optimizer, model.schedule_manager):
        str(sdbr.explain(thing))
    assert model.schedule_manager.statistics.to_dict() == before
    assert optimizer.t == t


def test_optimizer_before_its_first_update_keeps_its_states():
    optimizer = sdbr.static_optimizer(chainer.optimizers.Adam())
    optimizer.setup(Net())
    str(sdbr.explain(optimizer))
    assert all(p.update_rule.state is None for p in optimizer.target.params())


@pytest.mark.parametrize("backend", ["numpy", "cython"])
def test_in_every_state(backend):
    """Traced once, replayed, copied, cleared: there is always an answer."""
    model, optimizer = trained(steps=0, backend=backend)
    for _ in range(4):
        optimizer.update(model, *batch())
        facts_of(model)
        facts_of(optimizer)
    copied = model.copy()
    assert "not traced yet" in str(sdbr.explain(copied))
    assert facts_of(model)["managers"][0]["schedules"][0]["backend"] == backend
    model.schedule_manager.clear()
    text = str(sdbr.explain(model))
    assert "no schedule is kept" in text


def test_misses_name_the_attribute():
    net = sdbr.static_graph(Net())
    net.between = lambda h: F.relu(h) * net.l1.scale
    x, _ = batch()
    for scale in (1, 1, 2, 2):
        net.l1.scale = scale
        net(x)
    (manager,) = facts_of(net)["managers"]
    assert [miss["differs"] for miss in manager["misses"]] == [
        "'scale', an attribute or a variable that the call reads"
    ]


def test_misses_name_the_arguments():
    @sdbr.static_graph
    def f(x, factors, slope=0.2, **more):
        return F.leaky_relu(x, slope) * factors["a"]

    x, _ = batch()
    f(x, {"a": 2})
    f(x, {"a": 3})
    f(x, {"a": 3}, slope=0.5)
    f(x, {"a": 3}, slope=0.5, name="n")
    f([x][0][None], {"a": 3}, slope=0.5, name="n")
    (manager,) = facts_of(f)["managers"]
    assert [miss["differs"] for miss in manager["misses"]] == [
        "argument 1: {'a': 2} -> {'a': 3}",
        "argument 'slope': missing -> a float",
        "argument 'name': missing -> 'n'",
        "argument 0: float32[4,3] -> float32[1,4,3]",
    ]


def test_gradient_patterns_are_counted():
    @sdbr.static_graph
    def f(a, b, c):
        return F.sum(a * b * c)

    xs = [chainer.Variable(batch()[0]) for _ in range(3)]
    f(*xs)
    for wanted in ([0], [1], [2], [0, 1], [1, 2]):
        chainer.grad([f(*xs)], [xs[i] for i in wanted])
    (schedule,) = facts_of(f)["managers"][0]["schedules"]
    names = [program["name"] for program in schedule["programs"]]
    assert names == ["forward"] + ["backward"] * 6
    assert "and 4 more backward programs" in str(sdbr.explain(f))


# --- one screen, whatever happened ----------------------------------------------------------------
def assert_fits(report) -> str:
    """At most 40 lines of at most 120 columns, and data that JSON can hold."""
    text = str(report)
    lines = text.splitlines()
    assert len(lines) <= 40 and max(map(len, lines)) <= 120, text
    again = json.loads(json.dumps(report.to_dict()))
    assert again == report.to_dict()
    return text


def test_long_lines_go_on_in_the_next():
    @sdbr.static_graph
    def total(xs):
        return sum(F.sum(x) for x in xs)

    for n in (4, 5):
        total([batch()[0] for _ in range(20)] + [np.zeros(n, "f")])
    text = assert_fits(sdbr.explain(total))
    assert text.count("float32[4,3]") == 40
    assert "..." not in text.replace("sdbr.profile(...)", "")


def test_one_screen_with_many_schedules_and_long_names():
    def a_function_with_a_name_that_is_longer_than_any_name_should_be_in_a_program_of_today(x):
        return triple(x)

    model, optimizer = trained(
        between=lambda h: F.relu(
            a_function_with_a_name_that_is_longer_than_any_name_should_be_in_a_program_of_today(h)
        ),
        max_schedules=40,
    )
    for n in range(5, 40):
        for _ in range(34):  # as often as pays for a trace
            with chainer.using_config("train", bool(n % 2)):
                optimizer.update(model, *batch(n))
    optimizer.update(model, *batch(4))
    text = assert_fits(sdbr.explain(model))
    assert len(facts_of(model)["managers"][0]["schedules"]) > 20
    assert "schedules in" in text and "used last" in text and "Python op Triple" in text


def test_one_screen_with_many_static_children():
    class Part(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.l = L.Linear(3, 3)

        @sdbr.static_graph
        def first(self, x):
            return triple(self.l(x))

        @sdbr.static_graph
        def second(self, x):
            return F.relu(self.l(x))

    parts = chainer.ChainList(*[Part() for _ in range(12)])
    x, _ = batch()
    for _ in range(3):
        for i, part in enumerate(parts):
            for _ in range(i + 1):
                part.first(x)
            part.second(x)
    report = sdbr.explain(parts)
    text = assert_fits(report)
    assert len(report.to_dict()["managers"]) == 24
    assert text.count("Part.first:") == text.count("Part.second:") == 12


def test_age_and_use_of_each_schedule():
    model, optimizer = trained(steps=4)
    for _ in range(3):
        optimizer.update(model, *batch(6))
    with chainer.using_config("train", False), chainer.no_backprop_mode():
        for _ in range(5):
            model(*batch(7))
    optimizer.update(model, *batch())
    found = {
        s["arguments"][0]["shape"][0]: (s["served"], s["calls_ago"])
        for s in facts_of(model)["managers"][0]["schedules"]
    }
    assert found == {4: (5, 0), 6: (3, 6), 7: (5, 1)}
    text = assert_fits(sdbr.explain(model))
    assert "used 6 calls ago, served 3" in text and "used last, served 5" in text


def test_what_is_used_on_the_compiled_path_stays():
    """The least recently used schedule goes, whichever path its calls took."""
    model, optimizer = trained(steps=3, max_schedules=3)
    used = model.schedule_manager.static_schedule
    for n in range(5, 12):
        model(*batch(n))
        optimizer.update(model, *batch())
    assert any(used in group for group in model.schedule_manager.schedules.values())
    assert model.schedule_manager.statistics.steps == 9


def test_time_of_a_step():
    model, optimizer = trained(between=lambda h: triple(F.relu(h)))
    assert facts_of(model)["managers"][0]["time"] is None
    assert "time: not measured" in str(sdbr.explain(model))
    report = sdbr.explain(model, lambda: optimizer.update(model, *batch()))
    (manager,) = report.to_dict()["managers"]
    time = manager["time"]
    assert time["calls"] == 10
    assert all(time[part] > 0 for part in ("native", "python", "wrapping", "outside"))
    parts = sum(time[part] for part in ("native", "python", "wrapping", "outside"))
    assert time["total"] == pytest.approx(parts)
    assert "time a call" in assert_fits(report)
    # It is known later as well, and from a block of the user's.
    assert facts_of(optimizer)["managers"][0]["time"]["total"] == time["total"]
    with sdbr.profile(optimizer) as p:
        for _ in range(3):
            optimizer.update(model, *batch())
    assert facts_of(model)["managers"][0]["time"]["calls"] == 3 == p.breakdown()["calls"]


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
def test_what_made_a_trace_dynamic_and_what_would_mend_it():
    model, _ = trained(between=lambda h: h * float(str(h.array.sum())))
    (schedule,) = facts_of(model)["managers"][0]["schedules"]
    dynamic = schedule["dynamic"]
    assert "str()" in dynamic["reason"] and "test_explain.py" in dynamic["line"]
    assert "F.where" in dynamic["remedy"] and "sdbr.static_code" in dynamic["remedy"]
    text = assert_fits(sdbr.explain(model))
    assert "F.where" in text and "whole step: no, the call is not static" in text


def between_with_much_to_mend(h):
    x = h * float(str(h.array.sum()))
    print("inside")
    h = x * random.random()
    if time.time() < 0:  # pragma: no cover
        print("never")
    return h * float(str(h.array.max()))


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
def test_every_reason_that_made_a_trace_dynamic():
    """What is not followed any more after the first tells nothing; the rest is to be mended."""
    model, _ = trained(between=between_with_much_to_mend)
    (schedule,) = facts_of(model)["managers"][0]["schedules"]
    dynamic = schedule["dynamic"]
    told = [reason["reason"] for reason in (dynamic, *dynamic["others"])]
    assert [
        "str()" in told[0],
        "print" in told[1],
        "random." in told[2],
        "time." in told[3],
    ] == 4 * [True]
    assert len(told) == 4
    first = between_with_much_to_mend.__code__.co_firstlineno
    lines = [first + 1, first + 2, first + 3, first + 4]
    for line, reason in zip(lines, (dynamic, *dynamic["others"]), strict=True):
        assert f"test_explain.py:{line} " in reason["line"]
        assert f"test_explain.py:{line}" in str(sdbr.explain(model))
    assert "and: print" in assert_fits(sdbr.explain(model))


def test_memory():
    model, _ = trained()
    (manager,) = facts_of(model)["managers"]
    (schedule,) = manager["schedules"]
    programs = {p["name"]: p for p in schedule["programs"]}
    step = programs["step"]
    outputs = 2 * 4 + 4 * 2 * 4  # loss, accuracy, y
    gradients = 4 * (3 * 8 + 8 + 8 * 2 + 2)
    assert step["owned_bytes"] == outputs + gradients
    assert step["peak_bytes"] == step["arena_bytes"] + outputs + gradients
    # What it reads of y is a copy of the forward's: the user may write to y in between.
    assert programs["backward"]["owned_bytes"] == gradients
    assert manager["memory_bytes"] >= step["arena_bytes"] > 0


class TwoWays(Net):
    @sdbr.static_graph
    def encode(self, x):
        return F.relu(self.l1(x))

    @sdbr.static_graph
    def decode(self, h):
        return self.l2(h)


@pytest.mark.filterwarnings("ignore::sdbr.SdbrWarning")
def test_every_kind_of_thing_in_every_state():
    """Before any call, after some, after a failure, after eviction, after clear, copied."""
    x, _ = batch()

    @sdbr.static_graph(max_schedules=1)
    def function(x):
        return F.relu(x) * 2

    chain = TwoWays()
    instance = sdbr.static_graph(Net(), max_schedules=1)
    sequential = sdbr.static_graph(chainer.Sequential(L.Linear(3, 2), F.relu))
    things = [
        (function, function),
        (chain, chain.encode),
        (chain.encode, chain.encode),
        (chain.decode, lambda x: chain.decode(chain.encode(x))),
        (instance, instance),
        (instance.schedule_manager, instance),
        (sequential, sequential),
        (chainer.ChainList(instance, sequential), sequential),
    ]
    for thing, call in things:
        assert_fits(sdbr.explain(thing))
        for _ in range(3):
            call(x)
        assert "replays" in assert_fits(sdbr.explain(thing))
        call(np.concatenate([x, x]))
        assert_fits(sdbr.explain(thing))
        if call is not function:
            with pytest.raises(chainer.utils.type_check.InvalidType):
                call(x[:, :2])
        assert_fits(sdbr.explain(thing))
        with pytest.raises(TypeError):
            call()
        assert_fits(sdbr.explain(thing))
    copied = chain.copy()
    assert "not traced yet" in assert_fits(sdbr.explain(copied))
    instance.schedule_manager.clear()
    assert "no schedule is kept" in assert_fits(sdbr.explain(instance))


def test_the_schedule_used_last_on_every_path():
    """Whole steps and compiled calls in turn: ``static_schedule`` is that of the last one."""
    model, optimizer = trained()
    for _ in range(3):
        with chainer.using_config("train", False), chainer.no_backprop_mode():
            model(*batch())
        assert model.static_schedule is model.schedule_manager.static_schedule
        assert not model.static_schedule.keep_graph
        optimizer.update(model, *batch())
        assert model.static_schedule is model.schedule_manager.static_schedule
        assert model.static_schedule.keep_graph
