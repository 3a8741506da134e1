"""Ways to write a step: each sees in every step what define-by-run sees, and is compiled."""

from __future__ import annotations

import gc
import weakref

import sdbr

import chainer
import numpy as np
import pytest
from chainer import functions as F
from chainer import links as L
from chainer import optimizers
from chainer.optimizer_hooks import GradientClipping, WeightDecay

from tests.harness.training import STEPS, Loop, compare


class Net(chainer.Chain):
    """Draws, keeps statistics, and has two layers."""

    def __init__(self, n_out=3):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(4, 8, nobias=True)  # before normalization its gradient is noise
            self.bn = L.BatchNormalization(8)
            self.l2 = L.Linear(8, n_out)

    def forward(self, x):
        return self.l2(F.dropout(F.relu(self.bn(self.l1(x))), 0.3))


def batch(loop: Loop):
    return loop.array(6, 4), loop.labels(6, 3)


def classifier(loop: Loop, rule=optimizers.Adam, **options):
    model = loop.static(L.Classifier(Net()), **options)
    return model, loop.optimizer(rule(), model)


#: Loops of one backward a step: name -> generator.
ONE = {}


def one(loop):
    ONE[loop.__name__] = loop
    return loop


@one
def by_hand(loop):
    model, optimizer = classifier(loop)
    while True:
        loss = model(*batch(loop))
        model.cleargrads()
        loss.backward()
        optimizer.update()
        yield {"loss": loss}


@one
def cleared_before_the_call(loop):
    model, optimizer = classifier(loop)
    while True:
        optimizer.target.cleargrads()
        loss = model(*batch(loop))
        loss.backward()
        optimizer.update()
        yield {"loss": loss}


@one
def cleared_one_by_one(loop):
    model, optimizer = classifier(loop)
    while True:
        loss = model(*batch(loop))
        for p in model.params():
            p.cleargrad()
        loss.backward()
        optimizer.update()
        yield {"loss": loss}


@one
def zeroed(loop):
    model, optimizer = classifier(loop)
    while True:
        loss = model(*batch(loop))
        model.zerograds()
        loss.backward()
        optimizer.update()
        yield {"loss": loss}


@one
def a_lambda(loop):
    model, optimizer = classifier(loop)
    while True:
        x, t = batch(loop)
        optimizer.update(lambda x=x, t=t: model(x, t))
        yield {"loss": model.loss}


@one
def a_function_of_its_own(loop):
    model, optimizer = classifier(loop)

    def lossfun(x, t, scale):
        loss = model(x, t)
        chainer.report({"seen": loss.array}, model)
        return loss

    while True:
        reporter = chainer.Reporter()
        reporter.add_observer("main", model)
        observation = {}
        with reporter.scope(observation):
            optimizer.update(lossfun, *batch(loop), scale=2)
        yield {name: getattr(x, "array", x) for name, x in sorted(observation.items())}


@one
def retained(loop):
    model, optimizer = classifier(loop)
    while True:
        loss = model(*batch(loop))
        model.cleargrads()
        loss.backward(retain_grad=True)
        assert model.y.grad_var.array is model.y.grad and loss.grad_var.array is loss.grad
        yield {"loss": loss.grad, "y": model.y.grad}
        optimizer.update()


@one
def scaled(loop):
    model, optimizer = classifier(loop)
    optimizer.set_loss_scale(128.0)
    while True:
        loss = model(*batch(loop))
        model.cleargrads()
        loss.backward(loss_scale=optimizer._loss_scale)
        yield {"before": model.predictor.l1.W.grad, "scale": model.predictor.l1.W._loss_scale}
        optimizer.update()


@one
def scaled_by_a_number_of_numpy(loop):
    model, optimizer = classifier(loop, optimizers.SGD)
    while True:
        loss = model(*batch(loop))
        model.cleargrads()
        loss.backward(loss_scale=np.float32(4))
        yield {"before": model.predictor.l1.W.grad}
        optimizer.update()


@one
def begun_with_a_gradient(loop):
    model, optimizer = classifier(loop)
    while True:
        loss = model(*batch(loop))
        model.cleargrads()
        loss.grad = mine = np.array(loop.rng.rand(), "f")
        before = mine.copy()
        loss.backward()
        assert mine == before
        assert loss.grad is None
        optimizer.update()
        yield {"loss": loss}


@one
def cut_afterwards(loop):
    model, optimizer = classifier(loop)
    while True:
        loss = model(*batch(loop))
        model.cleargrads()
        loss.backward()
        loss.unchain_backward()
        assert loss.creator is None
        optimizer.update()
        yield {"loss": loss}


@one
def losses_are_kept(loop):
    model, optimizer = classifier(loop)
    losses = []
    while True:
        losses.append(model(*batch(loop)))
        model.cleargrads()
        losses[-1].backward()
        optimizer.update()
        yield {str(i): loss for i, loss in enumerate(losses)}


@one
def hooks_and_a_changing_rate(loop):
    model, optimizer = classifier(loop, optimizers.MomentumSGD)
    optimizer.add_hook(WeightDecay(1e-3))
    optimizer.add_hook(GradientClipping(0.5))
    while True:
        optimizer.lr *= 0.9
        loss = model(*batch(loop))
        model.cleargrads()
        loss.backward()
        optimizer.update()
        yield {"loss": loss}


@one
def gradients_changed_in_between(loop):
    model, optimizer = classifier(loop)
    while True:
        loss = model(*batch(loop))
        model.cleargrads()
        loss.backward()
        for p in model.params():
            p.grad *= 0.5  # written to, and set
            p.grad = np.clip(p.grad, -0.1, 0.1)
        optimizer.update()
        yield {"loss": loss}


@one
def two_optimizers_on_halves(loop):
    model = loop.static(L.Classifier(Net()))
    first = loop.optimizer(optimizers.Adam(), model.predictor.l1)
    second = loop.optimizer(optimizers.MomentumSGD(), model.predictor.l2)
    while True:
        loss = model(*batch(loop))
        first.target.cleargrads()
        second.target.cleargrads()
        model.predictor.bn.cleargrads()
        loss.backward()
        first.update()
        second.update()
        yield {"loss": loss}


@one
def two_optimizers_in_turn(loop):
    model = loop.static(L.Classifier(Net()))
    both = [loop.optimizer(rule(), model) for rule in (optimizers.Adam, optimizers.SGD)]
    for p in model.params():  # as the first left them: one rule for each parameter
        p.update_rule = optimizers.SGD(0.01).create_update_rule()
    i = 0
    while True:
        loss = model(*batch(loop))
        model.cleargrads()
        loss.backward()
        both[i % 2].update()
        i += 1
        yield {"loss": loss}


@one
def loss_outside(loop):
    net = loop.static(Net())
    optimizer = loop.optimizer(optimizers.Adam(), net)
    while True:
        x, t = batch(loop)
        loss = F.softmax_cross_entropy(net(x), t)
        net.cleargrads()
        loss.backward()
        optimizer.update()
        yield {"loss": loss}


@one
def loss_outside_in_a_function(loop):
    net = loop.static(Net())
    optimizer = loop.optimizer(optimizers.Adam(), net)

    def lossfun(x, t):
        y = net(x)
        return F.softmax_cross_entropy(y, t) + 0.01 * F.sum(y**2)

    while True:
        optimizer.update(lossfun, *batch(loop))
        yield {}


@one
def two_results(loop):
    class Agent(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.body, self.policy = L.Linear(4, 8), L.Linear(8, 3)
                self.value = L.Linear(8, 1)

        def forward(self, x):
            h = F.tanh(self.body(x))
            return self.policy(h), self.value(h)

    agent = loop.static(Agent())
    optimizer = loop.optimizer(optimizers.RMSprop(), agent)
    while True:
        x, t = batch(loop)
        logits, value = agent(x)
        loss = F.softmax_cross_entropy(logits, t) + 0.5 * F.mean((value - 1.0) ** 2)
        agent.cleargrads()
        loss.backward()
        optimizer.update()
        yield {"logits": logits, "value": value}


@one
def half_of_it_frozen(loop):
    model, optimizer = classifier(loop)
    model.predictor.l1.disable_update()
    while True:
        loss = model(*batch(loop))
        model.cleargrads()
        loss.backward()
        optimizer.update()
        yield {"loss": loss}


@one
def arguments_that_want_gradients(loop):
    model, optimizer = classifier(loop)
    x = chainer.Parameter(np.zeros((6, 4), "f"))
    x.cleargrad()
    while True:
        x.array = loop.array(6, 4)
        loss = model(x, loop.labels(6, 3))
        model.cleargrads()
        x.cleargrad()
        loss.backward()
        yield {"x": x.grad, "holder": x.grad is x.grad_var.array}
        optimizer.update()


def several(loop, n=3):
    """A loop with `n` backwards a step."""
    SEVERAL[loop.__name__] = loop, n
    return loop


SEVERAL: dict = {}


def accumulated(loop):
    model, optimizer = classifier(loop)
    while True:
        model.cleargrads()
        for _ in range(3):
            loss = model(*batch(loop)) / 3
            loss.backward()
        optimizer.update()
        yield {"loss": loss}


several(accumulated)


def accumulated_onto_arrays_of_the_user(loop):
    model, optimizer = classifier(loop)
    while True:
        mine = {path: np.ones_like(p.array) for path, p in model.namedparams()}
        for path, p in model.namedparams():
            p.grad = mine[path]
        for _ in range(3):
            model(*batch(loop)).backward()
        for path, p in model.namedparams():
            assert (mine[path] == 1).all() and p.grad is not mine[path]
        optimizer.update()
        yield {}


several(accumulated_onto_arrays_of_the_user)


def one_loss_after_the_other(loop):
    """Both gradients are taken of one graph."""
    net = loop.static(Net())
    optimizer = loop.optimizer(optimizers.Adam(), net)
    while True:
        x, t = batch(loop)
        y = net(x)
        a, b, c = F.softmax_cross_entropy(y, t), F.mean(y**2), F.mean(F.absolute(y))
        net.cleargrads()
        for loss in a, b, c:
            loss.backward()
        optimizer.update()
        yield {"a": a, "b": b, "c": c}


several(one_loss_after_the_other)


def held_between_batches(loop):
    """What the user holds of earlier gradients stays as it is."""
    model, optimizer = classifier(loop)
    while True:
        model.cleargrads()
        held = []
        for _ in range(3):
            model(*batch(loop)).backward()
            held.append((model.predictor.l2.W.grad, model.predictor.l2.W.grad.copy()))
        assert all((now == then).all() for now, then in held)
        assert len({id(now) for now, _ in held}) == 3
        optimizer.update()
        yield {}


several(held_between_batches)


def summed_losses(loop):
    model, optimizer = classifier(loop)
    while True:
        losses = [model(*batch(loop)) for _ in range(3)]
        model.cleargrads()
        (losses[0] + losses[1] + losses[2]).backward()
        optimizer.update()
        yield {"losses": np.array([x.array for x in losses])}


several(summed_losses)


def losses_backward_together(loop):
    model, optimizer = classifier(loop)
    while True:
        losses = [model(*batch(loop)) for _ in range(3)]
        model.cleargrads()
        for loss in losses:
            loss.grad = np.ones((), "f")
        chainer.backward(losses)
        optimizer.update()
        yield {"losses": np.array([x.array for x in losses])}


several(losses_backward_together)


def truncated(loop):
    """Truncated backpropagation through time: state with a history goes from call to call."""

    class Reader(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.lstm, self.out = L.LSTM(4, 5), L.Linear(5, 3)

        def forward(self, x, t):
            return F.softmax_cross_entropy(self.out(self.lstm(x)), t)

    model = loop.static(Reader())
    optimizer = loop.optimizer(optimizers.Adam(), model)
    while True:
        loss = 0
        for _ in range(3):
            loss += model(*batch(loop))
        model.cleargrads()
        loss.backward()
        loss.unchain_backward()
        optimizer.update()
        yield {"loss": loss}


several(truncated)


class Generator(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1, self.l2 = L.Linear(3, 8, nobias=True), L.Linear(8, 4)
            self.bn = L.BatchNormalization(8)

    def forward(self, z):
        return F.sigmoid(self.l2(F.relu(self.bn(self.l1(z)))))


class Discriminator(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1, self.l2 = L.Linear(4, 8), L.Linear(8, 1)

    def forward(self, x):
        return self.l2(F.leaky_relu(self.l1(x)))


def adversaries(loop):
    """The updater of Chainer's DCGAN example."""
    gen, dis = loop.static(Generator()), loop.static(Discriminator())
    gen_optimizer = loop.optimizer(optimizers.Adam(2e-4, beta1=0.5), gen)
    dis_optimizer = loop.optimizer(optimizers.Adam(2e-4, beta1=0.5), dis)
    for optimizer in gen_optimizer, dis_optimizer:
        optimizer.add_hook(WeightDecay(1e-4))

    def loss_dis(dis, y_fake, y_real):
        n = len(y_fake)
        loss = F.sum(F.softplus(-y_real)) / n + F.sum(F.softplus(y_fake)) / n
        chainer.report({"loss": loss}, dis)
        return loss

    def loss_gen(gen, y_fake):
        loss = F.sum(F.softplus(-y_fake)) / len(y_fake)
        chainer.report({"loss": loss}, gen)
        return loss

    reporter = chainer.Reporter()
    reporter.add_observer("gen", gen)
    reporter.add_observer("dis", dis)
    while True:
        observation = {}
        with reporter.scope(observation):
            y_real = dis(chainer.Variable(loop.array(6, 4)) / 255.0)
            x_fake = gen(chainer.Variable(np.random.uniform(-1, 1, (6, 3)).astype("f")))
            y_fake = dis(x_fake)
            dis_optimizer.update(loss_dis, dis, y_fake, y_real)
            gen_optimizer.update(loss_gen, gen, y_fake)
        yield {**observation, "fake": x_fake}


several(adversaries, 5)


def actor_and_critic(loop):
    """Two static calls, one backward."""
    actor, critic = loop.static(Net()), loop.static(Discriminator())
    first = loop.optimizer(optimizers.Adam(), actor)
    second = loop.optimizer(optimizers.Adam(), critic)
    while True:
        x, a = batch(loop)
        value = critic(x)
        advantage = 1.0 - value.array
        policy = -F.mean(F.select_item(F.log_softmax(actor(x)), a)[:, None] * advantage)
        loss = policy + 0.5 * F.mean_squared_error(value, np.ones_like(advantage))
        actor.cleargrads()
        critic.cleargrads()
        loss.backward()
        first.update()
        second.update()
        yield {"loss": loss}


several(actor_and_critic, 2)


#: Whose losses are static calls of their own in the end; the backward of a traced one is Chainer's.
LOSS_OUTSIDE = {"loss_outside", "loss_outside_in_a_function", "two_results"}


@pytest.mark.parametrize("name", ONE)
def test_one_backward_a_step(name):
    counts = compare(ONE[name])
    assert counts["traces"] == 1 and counts["replays"] == STEPS - 1
    assert counts["compiled_backwards"] == STEPS - 1 - (name in LOSS_OUTSIDE)
    assert counts["python_ops"] == counts["define_by_run_calls"] == counts["steps"] == 0


@pytest.mark.parametrize("name", SEVERAL)
def test_several_backwards_a_step(name):
    loop, n = SEVERAL[name]
    counts = compare(loop)
    assert counts["define_by_run_calls"] == 0 and counts["python_ops"] == 0
    assert counts["replays"] + counts["traces"] == counts["calls"]
    # Those of traced calls are Chainer's, and so is one that leads through a traced call.
    assert counts["compiled_backwards"] >= (STEPS - 2) * n


def test_nobody_holds_a_gradient_of_ours():
    """An array is handed out to the parameter and to nobody else."""
    model = sdbr.static_graph(L.Classifier(Net()))
    x, t = np.ones((6, 4), "f"), np.zeros(6, "i")
    for _ in range(4):
        model.cleargrads()
        model(x, t).backward()
    assert model.schedule_manager.statistics.compiled_backwards
    gradient = weakref.ref(model.predictor.l1.W.grad)
    model.cleargrads()
    gc.collect()
    assert gradient() is None
