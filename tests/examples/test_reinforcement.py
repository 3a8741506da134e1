"""Agents: a network that acts, losses on samples of its past, target networks."""

from __future__ import annotations

import copy

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
import pytest
from chainer import optimizers

from .harness import DTYPES, ITERATIONS, both, parameters


class Cart:
    """A made-up world with four numbers and two actions."""

    def __init__(self, dtype):
        self.rng = np.random.RandomState(7)
        self.state = self.rng.randn(4).astype(dtype)

    def step(self, action):
        noise = self.rng.randn(4).astype(self.state.dtype)
        self.state = self.state * 0.9 + noise * 0.1 + (action - 0.5)
        return self.state.copy(), float(1 - abs(self.state[0])), bool(self.rng.rand() < 0.2)


class Values(chainer.Chain):
    def __init__(self, n_in, n_out):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(n_in, 10)
            self.l2 = L.Linear(10, 10)
            self.l3 = L.Linear(10, n_out)

    def forward(self, x):
        return self.l3(F.relu(self.l2(F.relu(self.l1(x)))))


def q_loss(q, target, samples, double):
    """The loss of Q-learning as NumPy and Chainer code, mixed as one writes it."""
    state, action, reward, done, following = samples
    y = F.select_item(q(state), action)
    with chainer.no_backprop_mode():
        if double:
            best = F.select_item(target(following), F.argmax(q(following), axis=1))
        else:
            best = F.max(target(following), axis=1)
        goal = reward + 0.9 * (1 - done) * best
    return F.mean(F.huber_loss(y, goal, delta=1.0, reduce="no"))


class Learner(chainer.Chain):
    """The whole loss as one static call: both networks are children."""

    def __init__(self, q, target, double):
        super().__init__()
        with self.init_scope():
            self.q, self.target = q, target
        self.double = double

    def forward(self, *samples):
        return q_loss(self.q, self.target, samples, self.double)


@pytest.mark.parametrize("double", [False, True], ids=["dqn", "double dqn"])
@pytest.mark.parametrize("whole", [False, True], ids=["networks", "whole loss"])
@DTYPES
def test_q_learning_with_a_target_network(dtype, whole, double):
    def train(static):
        world, memory = Cart(dtype), []
        q = Values(4, 2)
        if not whole:
            q = static(q)
        target = copy.deepcopy(q)
        optimizer = static.optimizer(optimizers.Adam(eps=1e-2)).setup(q)
        learner = static(Learner(q, target, double)) if whole else None
        state = world.state.copy()
        for i in range(ITERATIONS + 20):
            with chainer.no_backprop_mode():
                action = int(q(state[None]).array[0].argmax())
            if np.random.rand() < 0.3:
                action = np.random.randint(2)
            following, reward, done = world.step(action)
            memory.append((state, action, reward, done, following))
            state = following
            if len(memory) < 16:
                continue
            kinds = [dtype, "i", dtype, dtype, dtype]
            picked = [memory[j] for j in np.random.permutation(len(memory))[:8]]
            samples = [
                np.array(x, k) for x, k in zip(zip(*picked, strict=True), kinds, strict=True)
            ]
            loss = learner(*samples) if whole else q_loss(q, target, samples, double)
            q.cleargrads()
            loss.backward()
            optimizer.update()
            if i % 7 == 0:  # the values move, the network stays
                target.copyparams(q)
            yield {"loss": loss.array, "action": action, **parameters(q, target)}

    static = both(train, dtype)
    statistics = static.statistics()
    assert statistics.define_by_run_calls == 0
    if whole:
        assert statistics.traces == 1
    else:
        # Acting, learning, and in double Q-learning a batch without backprop.
        assert statistics.traces == 2 + double
        assert statistics.python_ops == 0
    assert statistics.replays == statistics.calls - statistics.traces


def test_a_copied_target_network_starts_anew():
    """Copies of a static link are static, and have schedules of their own."""

    def train(static):
        q = static(Values(4, 2))
        rng = np.random.RandomState(1)
        for i in range(ITERATIONS):
            if i % 4 == 0:
                target = copy.deepcopy(q)
            x = rng.randn(3, 4).astype("f")
            y = F.sum(q(x) - target(x) * 0.5)
            q.cleargrads()
            y.backward()
            for p in q.params():
                p.array -= 0.1 * p.grad
            yield {"y": y.array, **parameters(q, target)}
        if static.on:
            assert target.schedule_manager is not q.schedule_manager
            assert target.schedule_manager.statistics.traces == 1

    static = both(train, "float32")
    assert static.statistics().replays == ITERATIONS - 1


class Policy(Values):
    """Actions between bounds that are arrays of the chain."""

    def __init__(self):
        super().__init__(3, 1)
        self.low, self.high = np.array([-2.0]), np.array([1.0])

    def forward(self, x):
        low, high = np.asarray(self.low, x.dtype), np.asarray(self.high, x.dtype)
        return F.tanh(super().forward(x)) * ((high - low) / 2) + (high + low) / 2


class StateActionValue(Values):
    def forward(self, state, action):
        return super().forward(F.concat((state, action), axis=1))


@DTYPES
def test_deterministic_policy_gradients(dtype):
    """The gradient of one static chain flows through another; targets follow slowly."""

    def train(static):
        q, policy = static(StateActionValue(4, 1)), static(Policy())
        networks = [q, policy, copy.deepcopy(q), copy.deepcopy(policy)]
        q_target, policy_target = networks[2:]
        rules = [
            static.optimizer(optimizers.Adam(eps=1e-3)).setup(q),
            static.optimizer(optimizers.Adam(1e-3, eps=1e-3)).setup(policy),
        ]
        rng = np.random.RandomState(3)
        for _ in range(ITERATIONS):
            state, following = rng.randn(2, 6, 3).astype(dtype)
            with chainer.no_backprop_mode():
                action = policy(state).array + 0.1 * rng.randn(6, 1).astype(dtype)
            reward, done = rng.randn(6).astype(dtype), (rng.rand(6) < 0.2).astype(dtype)
            y = F.squeeze(q(state, action), axis=1)
            with chainer.no_backprop_mode():
                after = F.squeeze(q_target(following, policy_target(following)), axis=1)
                goal = reward + 0.9 * (1 - done) * after
            loss = F.mean_squared_error(y, goal)
            q.cleargrads()
            loss.backward()
            rules[0].update()
            gain = -F.mean(q(state, policy(state)))
            policy.cleargrads()
            gain.backward()
            rules[1].update()
            for source, target in ((q, q_target), (policy, policy_target)):
                for s, t in zip(source.params(), target.params(), strict=True):
                    t.array[:] += 0.1 * (s.array - t.array)
            yield {"loss": loss.array, "gain": gain.array, **parameters(*networks)}

    static = both(train, dtype)
    for i, per_iteration in ((0, 2), (1, 2)):
        statistics = static.statistics(i)
        assert statistics.define_by_run_calls == statistics.python_ops == 0
        assert statistics.traces == 2
        assert statistics.replays == per_iteration * ITERATIONS - 2


class ActorCritic(chainer.Chain):
    """One body with memory, two heads."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.body = L.LSTM(4, 8)
            self.policy = L.Linear(8, 3)
            self.value = L.Linear(8, 1)

    def forward(self, x):
        h = self.body(x)
        return self.policy(h), F.squeeze(self.value(h), axis=1)


@DTYPES
def test_advantage_actor_critic_over_several_steps(dtype):
    """The loss of many calls; actions are drawn by NumPy from what the calls return."""

    def train(static):
        model = static(ActorCritic())

        @static
        def loss_of(logits, values, actions, returns):
            log_p = F.log_softmax(logits)
            p = F.exp(log_p)
            advantage = returns - values.array
            chosen = F.select_item(log_p, actions)
            entropy = -F.sum(p * log_p, axis=1)
            loss = -F.mean(chosen * advantage) - 0.01 * F.mean(entropy)
            return loss + 0.5 * F.mean_squared_error(values, returns)

        optimizer = static.optimizer(optimizers.Adam(eps=1e-3)).setup(model)
        optimizer.add_hook(chainer.optimizer_hooks.GradientClipping(40))
        rng = np.random.RandomState(3)
        for i in range(ITERATIONS):
            if i % 3 == 0:
                model.body.reset_state()
            logits, values, actions = [], [], []
            for _ in range(4):
                y, v = model(rng.randn(2, 4).astype(dtype))
                p = F.softmax(y).array
                actions.append([np.random.choice(3, p=row / row.sum()) for row in p])
                logits.append(y)
                values.append(v)
            returns = rng.randn(8).astype(dtype)
            loss = loss_of(
                F.concat(logits, axis=0), F.concat(values, axis=0),
                np.array(actions, "i").reshape(-1), returns,
            )  # fmt: skip
            model.cleargrads()
            loss.backward()
            loss.unchain_backward()
            optimizer.update()
            yield {"loss": loss.array, "actions": np.array(actions), **parameters(model)}

    static = both(train, dtype)
    body, loss = static.statistics(0), static.statistics(1)
    assert (body.traces, body.replays) == (2, 4 * ITERATIONS - 2)
    assert (loss.traces, loss.replays) == (1, ITERATIONS - 1)


@DTYPES
def test_gradient_penalty(dtype):
    """Wasserstein networks: a second derivative through a static critic."""

    def train(static):
        critic = static(Values(3, 1), enable_double_backprop=True)
        optimizer = static.optimizer(optimizers.Adam(eps=1e-3)).setup(critic)
        rng = np.random.RandomState(3)
        for _ in range(ITERATIONS):
            real, fake = rng.randn(2, 5, 3).astype(dtype)
            mixed = chainer.Variable(0.3 * real + 0.7 * fake)
            (gradient,) = chainer.grad([critic(mixed)], [mixed], enable_double_backprop=True)
            penalty = F.mean((F.sqrt(F.sum(gradient**2, axis=1) + 1e-3) - 1) ** 2)
            loss = F.mean(critic(fake)) - F.mean(critic(real)) + 10 * penalty
            critic.cleargrads()
            loss.backward()
            optimizer.update()
            yield {"penalty": penalty.array, "loss": loss.array, **parameters(critic)}

    static = both(train, dtype)
    assert static.statistics().traces == 2  # with and without a gradient of the input
    assert static.statistics().replays == 3 * ITERATIONS - 2
