"""What another thread may do to a model and its optimizer while it is trained.

Each race is a function that gets a `Training` and does its mischief once. Chainer promises nothing
for any of them; here they may cost a step, or raise what Chainer raises, and nothing else.
"""

from __future__ import annotations

import copy
import gc
import io
import pickle
from collections.abc import Callable

import sdbr

import chainer
import numpy as np
from chainer import functions as F
from chainer import links as L
from chainer import optimizer_hooks, serializers

RACES: dict[str, Callable] = {}


class Net(chainer.Chain):
    """A classifier's predictor with something of everything."""

    def __init__(self):
        super().__init__()
        rng = np.random.RandomState(0)
        with self.init_scope():
            self.l1 = L.Linear(8, 12, initialW=rng.randn(12, 8).astype("f") * 0.3)
            self.norm = L.BatchNormalization(12)
            self.l2 = L.Linear(12, 3, initialW=rng.randn(3, 12).astype("f") * 0.3)
        self.ratio = 0.1
        self.kept = None

    def forward(self, x):
        h = F.dropout(self.norm(F.relu(self.l1(x))), 0.2)
        self.kept = h
        return self.l2(h) * self.ratio


class Training:
    """A static model with its optimizer, and one batch."""

    def __init__(self):
        rng = np.random.RandomState(1)
        self.x = chainer.Variable(rng.randn(6, 8).astype("f"))
        self.t = rng.randint(0, 3, 6).astype("i")
        self.rounds = 0
        self.renew()

    def renew(self) -> None:
        """Another model and another optimizer."""
        self.model = sdbr.static_graph(L.Classifier(Net()))
        optimizer = (chainer.optimizers.Adam, chainer.optimizers.MomentumSGD)[self.rounds % 2]()
        self.optimizer = sdbr.static_optimizer(optimizer).setup(self.model)

    def train(self) -> None:
        """One iteration: a whole step, the parts of one, and a call without a graph."""
        model, optimizer = self.model, self.optimizer
        optimizer.update(model, self.x, self.t)
        model.cleargrads()
        model(self.x, self.t).backward()
        optimizer.update()
        with chainer.no_backprop_mode():
            model(self.x, self.t)

    @property
    def params(self) -> list:
        return [p for _, p in sorted(self.model.namedparams())]


def race(function: Callable) -> Callable:
    """Add to the table, by its first line."""
    RACES[function.__name__] = function
    return function


@race
def new_layer_and_setup(training):
    net = training.model.predictor
    if hasattr(net, "l3"):
        del net.l3
    with net.init_scope():
        net.l3 = L.Linear(3, 3)
    training.optimizer.setup(training.model)


@race
def setup_alone(training):
    training.optimizer.setup(training.model)


@race
def optimizer_hooks_come_and_go(training):
    for hook in (optimizer_hooks.WeightDecay(1e-5), optimizer_hooks.GradientClipping(5.0)):
        training.optimizer.add_hook(hook)
    for name in ("WeightDecay", "GradientClipping"):
        training.optimizer.remove_hook(name)


@race
def rule_hooks_come_and_go(training):
    for p in training.params:
        p.update_rule.add_hook(optimizer_hooks.Lasso(1e-6), "lasso")
    for p in training.params:
        p.update_rule.remove_hook("lasso")


@race
def arrays_replaced(training):
    for p in training.params:
        p.array = p.array.copy()


@race
def arrays_of_another_dtype_or_shape(training):
    for p in training.params:
        before = p.array
        p.array = before.astype("d")
        p.array = before[:1].copy()
        p.array = before


@race
def arrays_made_read_only(training):
    for p in training.params:
        p.array.flags.writeable = False
        p.array.flags.writeable = True


@race
def gradients_cleared_and_set(training):
    training.model.cleargrads()
    for p in training.params:
        p.grad = np.ones_like(p.array)
    training.model.zerograds()


@race
def loaded(training):
    for thing in (training.model, training.optimizer):
        file = io.BytesIO()
        serializers.save_npz(file, thing)
        file.seek(0)
        serializers.load_npz(file, thing)


@race
def copied(training):
    copy.copy(training.model)
    copy.deepcopy(training.model)(training.x, training.t)
    copy.deepcopy(training.optimizer)
    pickle.loads(pickle.dumps(training.model))
    training.model.copy(mode="share")
    training.model.predictor.l1.repeat(2)


@race
def cleared(training):
    manager = training.model.schedule_manager
    manager.end_forward()
    if training.rounds % 4 == 0:
        manager.clear()


@race
def configuration_changed(training):
    chainer.global_config.somebody = training.rounds
    chainer.global_config.lazy_grad_sum = not chainer.global_config.lazy_grad_sum


@race
def hyperparameters_changed(training):
    hyperparam = training.optimizer.hyperparam
    name = "alpha" if hasattr(hyperparam, "alpha") else "lr"
    setattr(hyperparam, name, 1e-4 + 1e-6 * (training.rounds % 7))
    for p in training.params:
        p.update_rule.hyperparam.eps = 1e-7
        del p.update_rule.hyperparam.eps
    training.model.predictor.ratio = 0.1 + 1e-3 * (training.rounds % 5)


@race
def updates_disabled(training):
    training.model.predictor.l1.disable_update()
    training.model.predictor.l1.enable_update()


@race
def counters_and_states_replaced(training):
    for p in training.params:
        rule = p.update_rule
        rule.t = 100_000 + training.rounds
        if rule.state is not None:
            rule._state = {name: value.copy() for name, value in rule.state.items()}
    for p in training.params:
        p.update_rule.init_state(p)


@race
def explained_and_profiled(training):
    str(sdbr.explain(training.model))
    str(sdbr.explain(training.optimizer))
    training.optimizer.update_plan.describe()
    with sdbr.profile(training.model):
        pass


@race
def updated_by_two(training):
    training.optimizer.update()
    training.optimizer.update(training.model, training.x, training.t)


@race
def called_by_two(training):
    loss = training.model(training.x, training.t)
    loss.backward()
    str(loss)


@race
def model_and_optimizer_dropped(training):
    if training.rounds % 20 == 0:
        training.renew()
        gc.collect()


@race
def arguments_replaced(training):
    training.x.array = training.x.array.copy()
    training.x.array = training.x.array[:, ::-1].copy()[:, ::-1]


@race
def captured_state_replaced(training):
    training.model.predictor.kept = None
    training.model.loss = None
    training.model.predictor.norm.avg_mean = training.model.predictor.norm.avg_mean.copy()


@race
def generator_replaced(training):
    np.random.seed(training.rounds)
    np.random.set_bit_generator(np.random.MT19937(training.rounds))


@race
def statistics_and_warnings_asked_for(training):
    manager = training.model.schedule_manager
    repr(manager.statistics)
    schedule = manager.static_schedule
    if schedule is not None:
        schedule.programs["forward"].disassemble()
    gc.collect()
