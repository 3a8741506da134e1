"""Audits of updates on a GPU that are made alone: native ones beside Chainer's own."""

from __future__ import annotations

import re
import warnings

import sdbr

import chainer
import cupy
import numpy as np
import pytest
from chainer import optimizer_hooks as hooks
from chainer import optimizers

from tests.harness.update_rules import HOOKS, RULES, add_all_hooks

from .audited import EVERY, WRONG_ADAM, batch, made, no_gpu, spoiled
from .programs import Way, assert_alike, seen, state


@pytest.fixture(autouse=True)
def audits_on():
    with chainer.using_config("sdbr_audit", "auto"):
        yield


def by_hand(way, n, rule=optimizers.Adam):
    model = made(way)
    optimizer = way.optimizer(rule(0.1), model)
    found = []
    for k in range(n):
        model.cleargrads()
        with chainer.using_config("use_static_graph", False):
            loss = model(*batch(k))
        loss.backward()
        optimizer.update()
        found.append((state(model), optimizer.t))
    return found, optimizer


@pytest.mark.parametrize("rule", [optimizers.SGD, optimizers.MomentumSGD, optimizers.Adam])
def test_updates_alone_are_compared(rule):
    want, _ = by_hand(Way(False), 6, rule)
    found, optimizer = by_hand(Way(True), 6, rule)
    assert_alike(found, want)
    audits = sdbr.explain(optimizer).to_dict()["optimizers"][0]["audits"]
    assert (audits["failed"], audits["inconclusive"]) == (0, 0)
    assert audits["passed"] >= 1
    assert f"beside Chainer's own: passed {audits['passed']}" in str(sdbr.explain(optimizer))
    assert optimizer.update_statistics.native_calls == 6
    with chainer.using_config("sdbr_audit", "off"):
        _, optimizer = by_hand(Way(True), 3, rule)
    assert "beside" not in str(sdbr.explain(optimizer))


@no_gpu
def test_a_wrong_update():
    want, _ = by_hand(Way(False), 4)
    with (
        spoiled(*WRONG_ADAM),
        pytest.warns(
            sdbr.SdbrWarning, match=r"a native update differs.*layer.W in place differs.*\[\d+ adam"
        ),
    ):
        found, optimizer = by_hand(Way(True), 4)
    assert_alike(found, want)
    assert "Chainer's as a whole: a native update differs" in str(sdbr.explain(optimizer))
    assert optimizer.update_statistics.python_updates == 4


def doubled(rule, param):
    param.grad *= 2


doubled.name, doubled.call_for_each_param, doubled.timing = "doubled", True, "pre"


def in_parts(way, n, wrong=None):
    """Steps of a native hook, one of the user's, native rules, and a native hook after them."""
    model = made(way)
    optimizer = way.optimizer(optimizers.Adam(0.1), model)
    optimizer.add_hook(hooks.WeightDecay(0.01))
    optimizer.add_hook(doubled)
    optimizer.add_hook(hooks.Lasso(0.001), timing="post")
    optimizer.loss_scaling(interval=3)
    found = []
    for k in range(n):
        model.cleargrads()
        with chainer.using_config("use_static_graph", False):
            loss = model(*batch(k))
        loss.backward(loss_scale=optimizer._loss_scale)
        if k == wrong:
            model.out.b.grad[0] = np.inf
        optimizer.update()
        counts = [p.update_rule.t for p in model.params()]
        arrays = [x[:2] for x in state(model)] if k == wrong else state(model)
        found.append((arrays, optimizer.t, counts, optimizer._loss_scale))
    return found, optimizer


@pytest.mark.filterwarnings("ignore:Non finite number")
def test_parts_of_updates_are_compared():
    want, _ = in_parts(Way(False), 6, wrong=4)
    found, optimizer = in_parts(Way(True), 6, wrong=4)
    assert_alike(found, want)
    statistics, audits = optimizer.update_statistics, optimizer._sdbr_engine.audits
    assert (statistics.mixed_updates, statistics.python_updates) == (5, 1)
    assert (audits.failed, audits.inconclusive) == (0, 0)
    assert audits.passed >= 2  # each native part by itself


#: What is spoiled, and which op is said to have written what differs.
PARTS = {
    "before the user's hook": (
        ("update/elements.h", "return g + f[0] * p;", "return g - f[0] * p;"),
        r"the gradient of /layer/W in place differs: .*\[\d+ weight_decay ",
    ),
    "the rules": (WRONG_ADAM, r" /layer/W in place differs: .*\[\d+ adam "),
    "after them": (
        ("update/elements.h", "return g + f[0] * sign;", "return g - f[0] * sign;"),
        r"the gradient of /layer/W in place differs: .*\[\d+ lasso ",
    ),
}


@no_gpu
@pytest.mark.parametrize("what", PARTS)
def test_a_wrong_part_of_an_update(what):
    """What is left of the step is Chainer's own as well, and all steps after it."""
    spoil, text = PARTS[what]
    want, _ = in_parts(Way(False), 4)
    with spoiled(*spoil), pytest.warns(sdbr.SdbrWarning, match="a native update differs") as told:
        found, optimizer = in_parts(Way(True), 4)
    assert_alike(found, want)
    assert len(told) == 1
    assert re.search(text, str(told[0].message)), told[0].message
    statistics = optimizer.update_statistics
    n = int(what != "before the user's hook")
    assert (statistics.mixed_updates, statistics.python_updates) == (n, 4 - n)
    assert optimizer._sdbr_engine.audits.failed == 1


@pytest.mark.filterwarnings("ignore:Non finite number")
@no_gpu
def test_a_wrong_look_at_gradients():
    """Steps by gradients that are not finite are left out."""
    want, _ = in_parts(Way(False), 4, wrong=0)
    spoil = "update/elements.h", "return g - g != 0;", "return 0 * (g != g);"
    with spoiled(*spoil), pytest.warns(sdbr.SdbrWarning, match="finds gradients finite that"):
        found, optimizer = in_parts(Way(True), 4, wrong=0)
    assert_alike(found, want)
    assert optimizer.update_statistics.python_updates == 4


# --- draws ---------------------------------------------------------------------------------------


def everything(model, optimizer):
    """All that steps leave behind."""
    rules = [p.update_rule for p in model.params()]
    states = [{name: seen(x) for name, x in (rule.state or {}).items()} for rule in rules]
    drawn = seen(cupy.random.rand(2))
    return state(model), states, optimizer.t, [rule.t for rule in rules], drawn


def steps(way, rule, add, change):
    """Steps with every update beside Chainer's; `change` comes before each."""
    model = made(way)
    optimizer = way.optimizer(RULES[rule](), model)
    add(optimizer)
    cupy.random.seed(3)
    found = []
    for k in range(5):
        model.cleargrads()
        with chainer.using_config("use_static_graph", False):
            loss = model(*batch(k))
        loss.backward(loss_scale=optimizer._loss_scale)
        change(k, model)
        optimizer.update()
        found.append(everything(model, optimizer))
    return found, optimizer


def check(rule, add=lambda optimizer: None, change=lambda k, model: None):
    """What comes of them is define-by-run's, without an alarm."""
    with chainer.using_config("sdbr_audit", EVERY), warnings.catch_warnings():
        warnings.simplefilter("error", sdbr.SdbrWarning)
        want, _ = steps(Way(False), rule, add, change)
        found, optimizer = steps(Way(True), rule, add, change)
    assert_alike(found, want)
    audits, statistics = optimizer._sdbr_engine.audits, optimizer.update_statistics
    assert (audits.failed, audits.inconclusive) == (0, 0)
    assert (statistics.native_calls, statistics.python_updates) == (5, 0)
    assert audits.passed >= 4  # the second is not due, as no time has gone by


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "msvag"])
def test_rules_with_all_hooks(rule):
    check(rule, add_all_hooks)


def fortran(k, model):
    for param in model.params():
        param.grad = cupy.asfortranarray(param.grad)


def every_other(k, model):
    for param in model.params():
        rows = cupy.zeros((2 * len(param), *param.shape[1:]), "f")
        rows[::2] = param.grad
        param.grad = rows[::2]


def cleared(k, model):
    if k in (1, 3):
        model.layer.b.cleargrad()


def frozen(k, model):
    if k == 2:
        model.layer.disable_update()
    if k == 3:
        model.layer.enable_update()


def shared(k, model):
    model.layer.b.grad = model.layer.b.array


def replaced(k, model):
    if k == 2:
        model.layer.W.array = model.layer.W.array.copy()
    if k == 3:
        model.layer.W.update_rule.init_state(model.layer.W)


CHANGES = [fortran, every_other, cleared, frozen, shared, replaced]


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("change", CHANGES)
def test_gradients_of_any_kind(change, hook):
    """Hooks write into a copy of what has other strides; Chainer writes the gradient."""
    check("adam", lambda optimizer: optimizer.add_hook(HOOKS[hook]()), change)


def drawing(rule, param):
    param.grad += cupy.random.normal(scale=0.01, size=param.shape, dtype="f")


drawing.name, drawing.call_for_each_param, drawing.timing = "drawing", True, "pre"


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("own", [doubled, drawing])
def test_gradients_of_any_kind_with_parts(own, change):
    def add(optimizer):
        for hook in (HOOKS["decay"](), own, HOOKS["noise"]()):
            optimizer.add_hook(hook)

    check("nesterov_ag", add, change)


@pytest.mark.parametrize("scale", [{"interval": 2}, {"scale": 8.0}])
@pytest.mark.parametrize("hook", HOOKS)
def test_scaled_losses(hook, scale):
    def add(optimizer):
        optimizer.add_hook(HOOKS[hook]())
        optimizer.loss_scaling(**scale)

    check("adam", add)


#: A product and a sum as one operation, as compilers for GPUs make it of them, and Chainer's not.
CONTRACTED = (
    "update/elements.h",
    "T FN(weight_decay_of)(T g, T p, const T *f) { return g + f[0] * p; }",
    "T FN(weight_decay_of)(T g, T p, const T *f) "
    "{ return (T)((double)g + (double)f[0] * (double)p); }",
)


def cancels(k, model):
    for param in model.params():
        param.grad = -0.1 * param.array


def idle(rule, param):
    pass


idle.name, idle.call_for_each_param, idle.timing = "idle", True, "pre"
DECAY = HOOKS["decay"]


@no_gpu
@pytest.mark.parametrize("added", [[DECAY], [DECAY, lambda: idle], [lambda: idle, DECAY]])
def test_a_difference_by_rounding(added):
    """A gradient that a hook makes zero but for rounding: Adam steps as far by any number."""

    def add(optimizer):
        for hook in added:
            optimizer.add_hook(hook())

    with chainer.using_config("sdbr_audit", EVERY), warnings.catch_warnings():
        warnings.simplefilter("error", sdbr.SdbrWarning)
        with spoiled(*CONTRACTED):
            _, optimizer = steps(Way(True), "adam", add, cancels)
    audits, statistics = optimizer._sdbr_engine.audits, optimizer.update_statistics
    assert (audits.failed, audits.inconclusive) == (0, 0)
    assert audits.noisy >= 1
    assert (statistics.native_calls, statistics.python_updates) == (5, 0)
    assert optimizer.t == 5 and {p.update_rule.t for p in optimizer.target.params()} == {5}


@no_gpu
def test_steps_that_may_be_rounding():
    """MSVAG's first takes a factor from a variance that is zero but for rounding: it may be any."""
    spoil = "update/elements.h", "factor = factor < 1 ? factor : 1;", "factor = (T)0.5;"
    with chainer.using_config("sdbr_audit", EVERY), warnings.catch_warnings():
        warnings.simplefilter("error", sdbr.SdbrWarning)
        with spoiled(*spoil):
            _, optimizer = steps(Way(True), "msvag", add_all_hooks, lambda k, model: None)
    assert optimizer._sdbr_engine.audits.passed == 4


@no_gpu
def test_their_states_are_compared():
    spoil = (
        "update/elements.h",
        "return m + f[1] * (g - m); }\nSDBR_INLINE T FN(msvag_square)",
        ("return m - f[1] * (g - m); }\nSDBR_INLINE T FN(msvag_square)"),
    )
    with spoiled(*spoil), pytest.warns(sdbr.SdbrWarning, match=r"_state.*differs.*msvag "):
        steps(Way(True), "msvag", lambda optimizer: None, lambda k, model: None)
