"""Every native rule with every option, against Chainer's own code over many steps."""

import importlib
import pkgutil

import sdbr  # noqa: F401
from sdbr.optimizers import hooks as hook_modules
from sdbr.optimizers import rules as rule_modules
from sdbr.optimizers.table import HOOKS as HOOK_ROWS
from sdbr.optimizers.table import RULES as RULE_ROWS
from sdbr.optimizers.table import _by_class
from sdbr.program import _prepared
from sdbr.program.machine import Machine

import numpy as np
import pytest
from chainer import optimizer_hooks

from tests.harness.update_rules import HOOKS, RULES, TOGETHER, Own
from tests.tolerances import RESULTS

HOOKED = {"none": {}, **{name: {name: make} for name, make in HOOKS.items()}, "all": TOGETHER}
#: Those that may be added to the rule of a parameter.
OF_RULES = [name for name, make in HOOKS.items() if HOOK_ROWS[type(make())].for_each_param]


def add(hooks, **kwds):
    def prepare(optimizer):
        for name, make in hooks.items():
            optimizer.add_hook(make(), name, **kwds)

    return prepare


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rule", RULES)
def test_fifty_steps(pair, rule, dtype):
    both = pair(RULES[rule], dtype)
    both.step(50)
    both.assert_native(50)


#: Of these a step is Chainer's bit by bit: what others do sums up numbers, in another order.
EXACT = [name for name in HOOKS if name not in ("clip", "clip_far", "lars")]


def assert_same_bits(both):
    for a, b in zip(both.plain.target.params(), both.static.target.params(), strict=True):
        np.testing.assert_array_equal(b.array, a.array)
        np.testing.assert_array_equal(b.grad, a.grad)
        for name, state in (a.update_rule.state or {}).items():
            np.testing.assert_array_equal(b.update_rule.state[name], state)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rule", RULES)
def test_each_operation_rounds_as_in_chainer(pair, rule, dtype):
    both = pair(RULES[rule], dtype, prepare=add({name: HOOKS[name] for name in EXACT}))
    for _ in range(20):
        both.gradients()
        both.update()
        assert_same_bits(both)
    both.assert_native(20)


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rule", RULES)
def test_arrays_begin_anywhere_in_a_line_of_the_cache(pair, backend, monkeypatch, rule, dtype, far):
    """Also where blocks of them are fetched ahead."""
    if far:
        monkeypatch.setattr(_prepared, "Machine", lambda: Machine(cache=0))
    n, offsets = 1100, 64 // np.dtype(dtype).itemsize
    both = pair(RULES[rule], dtype, shapes=[(n,)] * offsets, prepare=add({"decay": HOOKS["decay"]}))
    for optimizer in (both.plain, both.static):
        for k, param in enumerate(optimizer.target.params()):
            window = np.empty(n + offsets, dtype)[k : k + param.size].reshape(param.shape)
            window[...] = param.array
            param.array = window
    assert len({p.array.ctypes.data % 64 for p in both.static.target.params()}) > 1
    for _ in range(3):
        both.gradients()
        both.update()
    assert_same_bits(both)
    both.assert_native(3)
    if backend == "cython":
        assert both.static.update_program.prepared.is_far == far


@pytest.mark.parametrize("rule", ["sgd", "adam", "everything"])
def test_more_than_a_cache_holds(pair, backend, rule):
    both = pair(RULES[rule], shapes=[(300, 300), (7,), (), (64, 3000)])
    both.gradients()
    both.update()
    both.compare()
    both.assert_native(1)
    program = both.static.update_program
    if backend == "cython":
        assert program.prepared.ahead == 0 < len(program)
        assert not program.prepared.is_far


def test_a_few_numbers_are_in_the_cache(pair, backend):
    both = pair(RULES["adam"])
    both.step(2)
    both.assert_native(2)
    program = both.static.update_program
    if backend == "cython":
        assert program.prepared.ahead == len(program)


def test_rules_with_numbers_of_their_own_beside_others(pair):
    def prepare(optimizer):
        for i, param in enumerate(optimizer.target.params()):
            param.update_rule.hyperparam.alpha = 0.01 * (1 + i % 3)

    both = pair(RULES["adam"], prepare=prepare)
    both.step(3)
    both.each(lambda o: setattr(next(o.target.params()).update_rule.hyperparam, "alpha", 0.5))
    both.step(3)
    both.assert_native(6)


@pytest.mark.parametrize("hooks", HOOKED)
@pytest.mark.parametrize("rule", ["sgd", "adam"])
def test_hooks_of_the_optimizer(pair, rule, hooks):
    both = pair(RULES[rule], prepare=add(HOOKED[hooks]))
    both.step(20)
    both.assert_native(20)


@pytest.mark.parametrize("hooks", HOOKED)
def test_hooks_after_the_update(pair, hooks):
    both = pair(RULES["momentum_sgd"], prepare=add(HOOKED[hooks], timing="post"))
    both.step(10)
    both.assert_native(10)


@pytest.mark.parametrize("timing", ["pre", "post"])
@pytest.mark.parametrize("name", OF_RULES)
def test_a_hook_of_rules(pair, name, timing):
    def prepare(optimizer):
        for param in list(optimizer.target.params())[::2]:
            param.update_rule.add_hook(HOOKS[name](), timing=timing)

    both = pair(RULES["adam"], prepare=prepare)
    both.step(10)
    both.assert_native(10)


@pytest.mark.parametrize("timing", ["pre", "post"])
def test_hooks_of_rules_with_numbers_of_their_own(pair, timing):
    def prepare(optimizer):
        for i, param in enumerate(optimizer.target.params()):
            if i % 2:
                param.update_rule.add_hook(optimizer_hooks.WeightDecay(0.1 * i), timing=timing)
            if i % 3 == 0:
                param.update_rule.add_hook(optimizer_hooks.Lasso(0.1), timing=timing)

    both = pair(RULES["sgd"], prepare=prepare)
    both.step(10)
    both.assert_native(10)


def test_clipping_with_nan_spreads_it_as_in_chainer(pair):
    both = pair(RULES["sgd"], prepare=add(HOOKED["clip"]))
    both.gradients()
    for optimizer in (both.plain, both.static):
        next(optimizer.target.params()).grad[0, 0] = np.nan
    both.update()
    for a, b in zip(both.plain.target.params(), both.static.target.params(), strict=True):
        assert np.isnan(a.grad).all() and np.isnan(b.grad).all()
    both.assert_native(1)


@pytest.mark.parametrize("hooks", ["none", "clip"])
def test_gradients_of_zero(pair, hooks):
    both = pair(RULES["adam"], prepare=add(HOOKED[hooks]), scale=0.0)
    with np.errstate(divide="ignore"):
        both.step(3)
    both.assert_native(3)


def test_infinities_and_denormals_follow_chainer(pair):
    both = pair(RULES["adam"])
    for value in (np.inf, -np.inf, 1e-42, 3e38):
        both.gradients()
        for optimizer in (both.plain, both.static):
            for param in optimizer.target.params():
                param.grad[...] = value
        with np.errstate(all="ignore"):
            both.update()
        for a, b in zip(both.plain.target.params(), both.static.target.params(), strict=True):
            np.testing.assert_allclose(b.array, a.array, rtol=RESULTS)
    both.assert_native(4)


def test_empty_parameter(pair):
    both = pair(RULES["adam"], shapes=[(0, 3), (2,), (0,)])
    both.step(3)
    both.assert_native(3)


def test_the_folders_are_the_tables_in_the_order_of_names():
    for folder, table in ((rule_modules, RULE_ROWS), (hook_modules, HOOK_ROWS)):
        names = sorted(module.name for module in pkgutil.iter_modules(folder.__path__))
        rows = [importlib.import_module(f"{folder.__name__}.{name}").ROW for name in names]
        assert list(dict.fromkeys(table.values())) == rows


def test_every_row_is_tried():
    tried = {type(make().create_update_rule()) for make in RULES.values()}
    assert tried == {*RULE_ROWS, Own.Rule}
    hooks = {HOOK_ROWS[type(make())].op for make in HOOKS.values()}
    assert hooks == {row.op for row in HOOK_ROWS.values()}


def test_a_class_has_one_row():
    (row,) = _by_class([(int, row) for row in RULE_ROWS.values()][:1]).values()
    with pytest.raises(ValueError, match="two rows for int"):
        _by_class([(int, row), (int, next(r for r in RULE_ROWS.values() if r is not row))])
