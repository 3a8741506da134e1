"""``use_fp32_update``: parameters in float16, whose rules update a copy in float32, natively."""

import copy
import itertools
import warnings

import sdbr
from sdbr.audit.sides import Again, PlainSide
from sdbr.static_optimizer import _engine
from sdbr.trace.effects.sides import entered

import chainer
import numpy as np
import pytest
from chainer import optimizer_hooks, optimizers

from tests.harness.comparison import assert_near
from tests.harness.trainings import Net
from tests.harness.update_rules import HOOKS, RULES
from tests.tolerances import HALF_GRADIENTS, HALF_SUMS, UPDATES

pytestmark = pytest.mark.filterwarnings("ignore:.*(overflow|invalid value).*:RuntimeWarning")


def prepared(optimizer):
    """Every parameter is float16, and has a copy."""
    optimizer.use_fp32_update()
    for p in optimizer.target.params():
        p.array = p.array.astype(np.float16)
        p.update_rule.use_fp32_update()


def compare(both):
    """Copies and states as by Chainer, and parameters their roundings."""
    pairs = zip(both.plain.target.namedparams(), both.static.target.namedparams(), strict=True)
    for (name, p), (_, q) in pairs:
        one, other = p.update_rule, q.update_rule
        assert one.t == other.t and q.dtype == np.float16
        mine = other._fp32_param
        assert mine.name == one._fp32_param.name and mine.grad is None
        assert_near(mine.array, one._fp32_param.array, UPDATES["f"], name)
        np.testing.assert_array_equal(q.array, mine.array.astype(np.float16), name)
        assert q.node.dtype == np.float16 and q.node.shape == q.shape
        np.testing.assert_array_equal(q.grad, p.grad, name)
        for key in one.state or {}:
            assert other.state[key].dtype == np.float32
            # Of arrays without dimensions, Chainer makes numbers.
            state = np.asarray(one.state[key])
            assert_near(other.state[key], state, UPDATES["f"], f"{name}.{key}")


def steps(both, n=1):
    for _ in range(n):
        both.gradients()
        both.update()
        compare(both)


@pytest.mark.parametrize("rule", RULES)
def test_every_rule(pair, rule):
    both = pair(RULES[rule], prepare=prepared)
    steps(both, 4)
    both.assert_native(4)


@pytest.mark.parametrize("timing", ["pre", "post"])
@pytest.mark.parametrize("hook", [name for name in HOOKS if not name.startswith("clip")])
def test_hooks_of_rules_see_the_copy(pair, hook, timing):
    def prepare(optimizer):
        prepared(optimizer)
        for p in optimizer.target.params():
            p.update_rule.add_hook(HOOKS[hook](), timing=timing)

    both = pair(lambda: optimizers.MomentumSGD(0.1), prepare=prepare)
    steps(both, 4)
    both.assert_native(4)


@pytest.mark.parametrize("scale", [8.0, 3.0])
def test_loss_scale(pair, scale):
    def prepare(optimizer):
        prepared(optimizer)
        for p in optimizer.target.params():
            p._loss_scale = scale
            # Gradients are divided before it sees them.
            p.update_rule.add_hook(optimizer_hooks.WeightDecay(0.1))

    both = pair(lambda: optimizers.SGD(0.1), prepare=prepare)
    steps(both, 4)
    both.assert_native(4)
    # It is the gradient of the copy that is divided: the parameter's own stays what it is.
    both.gradients()
    both.each(lambda o: setattr(o.target.p0, "grad_var", chainer.Variable(o.target.p0.grad)))
    before = [o.target.p0.grad_var for o in (both.plain, both.static)]
    both.update()
    compare(both)
    assert [o.target.p0.grad_var for o in (both.plain, both.static)] == before


def test_gradients_that_are_not_finite(pair):
    """A kernel looks at all of them, in float16."""
    both = pair(lambda: optimizers.SGD(0.1), prepare=prepared)
    both.each(lambda o: o.loss_scaling(interval=3))
    steps(both, 3)
    finite = _engine(both.static).native.finite
    for bad in (np.inf, -np.inf, np.nan):
        both.gradients()
        both.static.update_plan.bind_gradients(finite.memory, False)
        assert finite.finds_all_finite()
        both.each(lambda o, bad=bad: o.target.p3.grad.__setitem__((0, 0, 0), bad))
        assert not finite.finds_all_finite()
        both.update()
        compare(both)
    assert both.static._loss_scale == both.plain._loss_scale < 3
    assert (both.static.update_statistics.native_calls, both.static.t) == (3, 6)


def test_what_audits_repeat_warns_nobody(pair):
    """Define-by-run on disturbed inputs may overflow where no step of the user's does."""
    both = pair(lambda: optimizers.SGD(0.1), prepare=prepared)
    both.each(lambda o: o.loss_scaling(interval=3))
    steps(both, 2)
    for bad in (0.0, np.inf):
        both.each(lambda o, bad=bad: o.target.p3.grad.__setitem__((0, 0, 0), bad))
        both.plain.check_nan_in_grads()
        with warnings.catch_warnings(), entered(Again(PlainSide(None))):
            warnings.simplefilter("error")
            both.static.check_nan_in_grads()
        for name in ("_loss_scaling_isnan", "_loss_scaling_isnan_ever"):
            assert getattr(both.static, name) is getattr(both.plain, name) is bool(bad)


def test_dtypes_side_by_side(pair):
    def some(optimizer):
        prepared(optimizer)
        p = next(iter(optimizer.target.params()))
        p.array = p.array.astype(np.float32)

    both = pair(optimizers.Adam, prepare=some)
    for _ in range(4):
        both.gradients()
        both.update()
    both.assert_native(4)
    pairs = zip(both.plain.target.namedparams(), both.static.target.namedparams(), strict=True)
    for (name, p), (_, q) in pairs:
        assert_near(q.array, p.array, 0 if p.dtype == np.float16 else UPDATES["f"], name)


def test_hook_of_the_optimizer_meets_float16(pair):
    """Its arithmetic is that of the parameters: Chainer's own; the rules are native."""
    both = pair(lambda: optimizers.SGD(0.1), prepare=prepared)
    both.each(lambda o: o.add_hook(optimizer_hooks.WeightDecay(0.1)))
    steps(both, 3)
    statistics = both.static.update_statistics
    assert (statistics.mixed_updates, statistics.python_updates) == (3, 0)
    assert both.static.update_plan.python_parts == ["hook WeightDecay: parameter dtype float16"]


def change_flag(rule, p):
    rule.use_fp32_update(not rule._use_fp32_update)


def drop_copy(rule, p):
    rule._fp32_param = None


def replace_array_of_copy(rule, p):
    rule._fp32_param.array = rule._fp32_param.array * 2


def replace_copy(rule, p):
    rule._fp32_param = chainer.Parameter(rule._fp32_param.array + 1)


def write_copy(rule, p):
    rule._fp32_param.array[...] += 1


def replace_array(rule, p):
    p.array = p.array + np.float16(1)


def write_array(rule, p):
    p.array[...] = 3


def make_read_only(rule, p):
    p.array.flags.writeable = False


def widen(rule, p):
    p.array = p.array.astype(np.float32)
    rule._state = None
    p.cleargrad()


@pytest.mark.parametrize(
    ("change", "times"),
    [
        (change_flag, 2),
        (drop_copy, 1),
        (replace_array_of_copy, 1),
        (replace_copy, 1),
        (write_copy, 1),
        (replace_array, 1),
        (write_array, 1),
        (make_read_only, 1),
        (widen, 1),
    ],
)
def test_changes_are_seen(pair, change, times):
    def changed(optimizer):
        p = list(optimizer.target.params())[2]
        change(p.update_rule, p)

    both = pair(lambda: optimizers.MomentumSGD(0.1), prepare=prepared)
    steps(both, 3)
    for _ in range(times):
        both.each(changed)
        for _ in range(2):
            both.gradients()
            both.update()
            pairs = zip(both.plain.target.params(), both.static.target.params(), strict=True)
            for p, q in pairs:
                assert p.dtype == q.dtype and p.update_rule.t == q.update_rule.t
                np.testing.assert_array_equal(
                    q.array.astype(np.float16), p.array.astype(np.float16)
                )
    if change is not change_flag:
        assert both.static.update_statistics.python_updates == 0
        assert both.static.update_statistics.mixed_updates == 0


def test_parameter_in_the_order_of_fortran(pair):
    def turned(optimizer):
        prepared(optimizer)
        p = optimizer.target.p0
        p.array = np.asfortranarray(p.array)

    both = pair(lambda: optimizers.SGD(0.1), prepare=turned)
    steps(both, 3)
    assert both.static.target.p0.array.flags.f_contiguous
    # The first has made its copy half-way, which the plan did not know.
    statistics = both.static.update_statistics
    assert (statistics.mixed_updates, statistics.python_updates) == (2, 1)


def test_arrays_that_somebody_holds_stay_as_they_are(pair):
    both = pair(lambda: optimizers.SGD(0.1), prepare=prepared)
    parameter = both.static.target.p0
    held, views, values = [], [], []
    for i in range(6):
        steps(both)
        if i % 2:
            held.append(parameter.array)
        else:
            views.append(parameter.array[1:])
        values.append(parameter.array.copy())
    for i, value in enumerate(values):
        if i % 2:
            np.testing.assert_array_equal(held[i // 2], value)
        else:
            np.testing.assert_array_equal(views[i // 2], value[1:])
    both.assert_native(6)


def test_a_view_that_was_given_is_not_written(pair):
    both = pair(lambda: optimizers.SGD(0.1), prepare=prepared)
    flat = np.zeros(12, np.float16)
    both.each(lambda o: setattr(o.target.p0, "array", flat.reshape(3, 4)))
    steps(both, 4)
    assert not flat.any()
    both.assert_native(4)


def test_two_arrays_take_turns(pair):
    both = pair(lambda: optimizers.SGD(0.1), prepare=prepared)
    steps(both, 3)
    found = []
    for _ in range(6):
        steps(both)
        found.append(both.static.target.p0.array.ctypes.data)
    assert len(set(found)) == 2 and found[:2] * 3 == found


def test_the_node_sees_the_new_array(pair):
    both = pair(lambda: optimizers.SGD(0.1), prepare=prepared)
    both.each(lambda o: o.target.p0.retain_data())
    steps(both, 3)
    parameter = both.static.target.p0
    assert parameter.node.data is parameter.array


def test_copies_of_an_optimizer(pair, duplicate):
    both = pair(lambda: optimizers.Adam(), prepare=prepared)
    steps(both, 2)
    other = duplicate(both.static)
    before = [p.array.copy() for p in other.target.params()]
    steps(both, 2)
    for p, array in zip(other.target.params(), before, strict=True):
        np.testing.assert_array_equal(p.array, array)
        assert p.update_rule._fp32_param.array.base is None
    both.assert_native(4)


# --- in whole steps -----------------------------------------------------------------------------


class Trainings:
    """The same training in float16 by Chainer, and in whole steps."""

    def __init__(self, make, prepare=lambda optimizer: None):
        self.rng = np.random.RandomState(0)
        self.size = 1
        self.optimizers = []
        for static in (False, True):
            np.random.seed(0)
            with chainer.using_config("dtype", np.float16):
                net = Net()
            optimizer = make()
            optimizer.use_fp32_update()
            if static:
                net, optimizer = sdbr.static_graph(net), sdbr.static_optimizer(optimizer)
            optimizer.setup(net)
            net.idle.disable_update()
            prepare(optimizer)
            self.optimizers.append(optimizer)
        self.plain, self.static = self.optimizers

    @property
    def statistics(self):
        return self.static.target.schedule_manager.statistics

    def step(self, n=1):
        for _ in range(n):
            x = (self.size * self.rng.randn(5, 4)).astype(np.float16)
            t = self.rng.randint(0, 3, 5).astype(np.int32)
            for optimizer in self.optimizers:
                optimizer.update(optimizer.target, x, t)
            self.compare()
            self.together()

    def compare(self):
        for (name, p), (_, q) in self.pairs():
            assert p.update_rule.t == q.update_rule.t
            if p.update_rule._fp32_param is None:  # nothing was updated yet
                assert q.update_rule._fp32_param is None
                continue
            mine = q.update_rule._fp32_param.array
            assert_near(mine, p.update_rule._fp32_param.array, HALF_GRADIENTS, name)
            np.testing.assert_array_equal(q.array, mine.astype(np.float16), name)
            np.testing.assert_array_equal(np.isfinite(q.grad), np.isfinite(p.grad))
            if np.isfinite(p.grad).all():
                assert_near(q.grad, p.grad, HALF_SUMS, f"gradient of {name}")
            assert p._loss_scale == q._loss_scale

    def together(self):
        """The static one goes on from where the other is: no difference adds up."""
        for (_, p), (_, q) in self.pairs():
            if p.update_rule._fp32_param is None:
                continue
            q.update_rule._fp32_param.array[...] = p.update_rule._fp32_param.array
            q.array[...] = p.array
            for key, value in (p.update_rule.state or {}).items():
                q.update_rule.state[key][...] = value

    def pairs(self):
        return zip(self.plain.target.namedparams(), self.static.target.namedparams(), strict=True)


@pytest.mark.parametrize("rule", ["sgd", "momentum_sgd", "adam_eps", "nesterov_ag"])
@pytest.mark.parametrize("audit", ["off", 1e9])
def test_whole_steps(rule, audit):
    trainings = Trainings(RULES[rule])
    with chainer.using_config("sdbr_audit", audit):
        trainings.step(8)
    assert (trainings.statistics.steps, trainings.statistics.python_ops) == (7, 0)
    audits = trainings.static.target.schedule_manager.audits
    assert (audits.failed, audits.passed) == (0, 0 if audit == "off" else 7)


def test_whole_steps_with_a_loss_scale():
    trainings = Trainings(lambda: optimizers.MomentumSGD(0.1), lambda o: o.set_loss_scale(32.0))
    trainings.step(8)
    assert (trainings.statistics.steps, trainings.statistics.python_ops) == (7, 0)


def test_a_loss_scale_that_changes_by_itself():
    """It is halved where gradients overflow, and nothing is updated then."""

    def prepare(optimizer):
        optimizer.loss_scaling(interval=3)
        optimizer._loss_scale = 2.0**15

    trainings = Trainings(lambda: optimizers.SGD(0.01), prepare)
    trainings.size = 30
    scales = []
    for _ in range(10):
        trainings.step()
        scales.append([o._loss_scale for o in trainings.optimizers])
    assert len({scale for scale, _ in scales}) > 2
    assert all(plain == static for plain, static in scales)
    left_out = sum(later < earlier for (earlier, _), (later, _) in itertools.pairwise(scales))
    left_out += scales[0][0] < 2.0**15
    statistics = trainings.static.update_statistics
    assert left_out > 1
    assert (statistics.native_calls, statistics.python_updates) == (0, 0)
    assert trainings.statistics.steps == 9
    assert trainings.static.update_plan.python_parts == []


@pytest.mark.parametrize("audit", ["off", 1e9])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_steps_that_are_left_out_leave_no_copies(audit, n):
    """Else whoever goes on without sdbr would update copies of what parameters were then."""

    def prepare(optimizer):
        optimizer.loss_scaling(interval=3)
        optimizer._loss_scale = optimizer._loss_scale_max = 1e30

    trainings = Trainings(lambda: optimizers.MomentumSGD(0.1), prepare)
    with chainer.using_config("sdbr_audit", audit):
        trainings.step(n)
        for optimizer in trainings.optimizers:
            assert optimizer.t == n
            for p in optimizer.target.params():
                assert (p.update_rule.state, p.update_rule._fp32_param) == (None, None)
        assert trainings.statistics.steps == n - 1
        assert trainings.static.target.schedule_manager.audits.failed == 0
        for optimizer in trainings.optimizers:
            optimizer._loss_scale = 8.0
            for p in optimizer.target.params():
                p.array = p.array + np.float16(0.5)
        with chainer.using_config("use_static_graph", False):
            trainings.step()
        trainings.step(3)
    assert trainings.statistics.steps >= n + 2


def test_a_step_that_fails_updates_nothing():
    trainings = Trainings(lambda: optimizers.SGD(0.1))
    trainings.step(3)
    static = trainings.static
    before = {name: p.array for name, p in static.target.namedparams()}
    values = {name: array.copy() for name, array in before.items()}
    x, t = np.ones((5, 4), np.float16), np.full(5, 7, np.int32)
    for _ in range(2):
        with pytest.raises(IndexError):
            static.update(static.target, x, t)
        for name, p in static.target.namedparams():
            assert p.array is before[name]
            np.testing.assert_array_equal(p.array, values[name])
    trainings.step(3)
    assert trainings.statistics.steps == 5


def test_copies_are_made_of_what_parameters_are_then():
    """A plan may be made before the first update is, and parameters be loaded in between."""
    trainings = Trainings(lambda: optimizers.SGD(0.1))
    x, t = np.ones((5, 4), np.float16), np.full(5, 7, np.int32)
    plan = trainings.static.update_plan
    assert plan.native and len(plan.masters) == 4
    with pytest.raises(IndexError):
        trainings.static.update(trainings.static.target, x, t)
    for optimizer in trainings.optimizers:
        for p in optimizer.target.params():
            p.array += np.float16(0.25)
    trainings.step(4)
    assert trainings.statistics.steps > 0


def test_a_parameter_whose_array_is_kept_in_a_list(backend):
    """Histories of weights, as people write them."""
    histories = []
    trainings = Trainings(lambda: optimizers.MomentumSGD(0.1))
    for optimizer in trainings.optimizers:
        histories.append([])
        trainings.rng.seed(1)
        for _ in range(6):
            x = trainings.rng.randn(5, 4).astype(np.float16)
            t = trainings.rng.randint(0, 3, 5).astype(np.int32)
            optimizer.update(optimizer.target, x, t)
            histories[-1].append(optimizer.target.l1.W.array)
    assert trainings.statistics.steps == 5
    for plain, static in zip(*histories, strict=True):
        assert_near(static, plain, HALF_SUMS, "weights")
    assert len({id(array) for array in histories[1]}) == 6


def test_copied_targets_start_anew():
    trainings = Trainings(lambda: optimizers.SGD(0.1))
    trainings.step(3)
    net = copy.deepcopy(trainings.static.target)
    for p in net.params():
        if p.update_rule._fp32_param is not None:
            assert p.update_rule._fp32_param.array is not None
    trainings.step(2)
    assert trainings.statistics.steps == 4
