"""Agents: replay buffers, counters, rollouts, several networks and their updates."""

from __future__ import annotations

import collections
import copy
import random

import chainer
import numpy as np
from chainer import functions as F
from chainer import links as L

from benchmarks.wild.way import MLP, Program, Way, floats, ring


class World:
    """Something like a pole on a cart: what comes next, a reward, whether it is over."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.RandomState(seed)
        self.t = 0
        self.state = floats(self.rng, 4)

    def step(self, action: int) -> tuple[np.ndarray, float, bool]:
        """Do something."""
        self.t += 1
        self.state = (0.9 * self.state + 0.1 * floats(self.rng, 4) + 0.05 * (action - 0.5)).astype(
            chainer.config.dtype
        )
        return self.state, float(1 - abs(self.state[0])), self.rng.rand() < 0.05


class DQN(chainer.Chain):
    """An agent that is a chain: network, target, memory and counters in one object."""

    def __init__(self, double: bool = False) -> None:
        super().__init__()
        with self.init_scope():
            self.q = MLP(4, 32, 32, 2)
        self.target = copy.deepcopy(self.q)
        self.memory: collections.deque = collections.deque(maxlen=500)
        self.double = double
        self.epsilon = 1.0
        self.n_updates = 0

    def forward(self, s, a, r, n, over):
        """The loss of a minibatch; the target network follows now and then."""
        self.n_updates += 1
        if self.n_updates % 50 == 0:
            self.target.copyparams(self.q)
        with chainer.no_backprop_mode():
            later = self.target(n)
            if self.double:
                best = F.argmax(self.q(n), axis=1)
                later = F.select_item(later, best)
            else:
                later = F.max(later, axis=1)
        y = r + 0.99 * (1 - over) * later.array
        return F.mean(F.huber_loss(F.select_item(self.q(s), a), y, 1.0, reduce="no"))

    def act(self, s):
        """Greedy, or at random more and more rarely."""
        self.epsilon = max(0.05, self.epsilon * 0.99)
        if random.random() < self.epsilon:
            return random.randrange(2)
        with chainer.no_backprop_mode():
            return int(self.q(s[None]).array.argmax())


def _dqn(way: Way, double: bool) -> Program:
    random.seed(0)
    chooser = random.Random(1)
    agent = way.graph(DQN(double))
    agent.q = way.graph(agent.q)
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), agent)
    world = World(0)
    for _ in range(32):
        _remember(agent.memory, world, 0)

    def step(i):
        _remember(agent.memory, world, agent.act(world.state))
        batch = [agent.memory[chooser.randrange(len(agent.memory))] for _ in range(32)]
        s, a, r, n, over = (np.array(column) for column in zip(*batch, strict=True))
        floating = [x.astype(chainer.config.dtype) for x in (r, n, over)]
        optimizer.update(agent, s, a.astype("i"), *floating)
        return agent.epsilon

    return Program(step, (agent,))


def _remember(memory, world: World, action: int) -> None:
    before = world.state
    after, reward, over = world.step(action)
    memory.append((before, action, reward, after, over))


def dqn(way: Way) -> Program:
    """The agent is the chain: it counts its updates and copies the target while it is called."""
    return _dqn(way, False)


def double_dqn(way: Way) -> Program:
    """The same, with double Q-learning."""
    return _dqn(way, True)


def dqn_outside(way: Way) -> Program:
    """Memory, counters and targets are the loop's; the loss is static."""
    q = way.graph(MLP(4, 32, 32, 2))
    target = copy.deepcopy(q)
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), q)
    memory: list = []
    world, rng = World(1), np.random.RandomState(2)
    for _ in range(32):
        _remember(memory, world, 0)

    def step(i):
        if rng.rand() < 0.1:
            action = rng.randint(2)
        else:
            with chainer.no_backprop_mode(), chainer.using_config("train", False):
                action = int(q(world.state[None]).array.argmax())
        _remember(memory, world, action)
        batch = [memory[k] for k in rng.randint(0, len(memory), 32)]
        s, a, r, n, over = (np.array(column) for column in zip(*batch, strict=True))
        with chainer.no_backprop_mode():
            later = target(n).array.max(axis=1)
        y = (r + 0.99 * (1 - over) * later).astype(chainer.config.dtype)
        loss = F.mean_squared_error(F.select_item(q(s), a.astype("i")), y)
        q.cleargrads()
        loss.backward()
        optimizer.update()
        if i % 40 == 39:
            target.copyparams(q)
        return loss

    return Program(step, (q,))


class ActorCritic(chainer.Chain):
    """A policy and a value with a common body."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.body = L.Linear(4, 32)
            self.policy = L.Linear(32, 2)
            self.value = L.Linear(32, 1)

    def forward(self, x):
        """Logits and values."""
        h = F.tanh(self.body(x))
        return self.policy(h), self.value(h)[:, 0]


def a2c(way: Way) -> Program:
    """Acts for a few steps, keeps Variables in lists, and goes back through all of them."""
    model = way.graph(ActorCritic())
    optimizer = way.optimizer(chainer.optimizers.RMSprop(1e-3), model)
    optimizer.add_hook(chainer.optimizer.GradientClipping(5))
    world = World(3)

    def step(i):
        kept = []
        for _ in range(5):
            logits, value = model(world.state[None])
            action = int(np.argmax(logits.array[0]))
            _, reward, over = world.step(action)
            kept.append((F.log_softmax(logits)[0, action], value, reward, logits))
            if over:
                break
        total, loss = 0.0, 0
        for logp, value, reward, logits in reversed(kept):
            total = reward + 0.95 * total
            advantage = total - float(value.array[0])
            p = F.softmax(logits)
            entropy = -F.sum(p * F.log_softmax(logits))
            loss += 0.5 * F.sum((total - value) ** 2) - advantage * logp - 0.01 * entropy
        model.cleargrads()
        loss.backward()
        optimizer.update()
        return loss

    return Program(step, (model,))


class Clipped(chainer.Chain):
    """The loss of PPO; how often it clips is reported as a number."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.net = ActorCritic()
        self.clip = 0.2

    def forward(self, s, a, old, advantage, returns):
        """The loss of a minibatch."""
        logits, value = self.net(s)
        ratio = F.exp(F.select_item(F.log_softmax(logits), a) - old)
        clipped = F.clip(ratio, 1 - self.clip, 1 + self.clip)
        policy = -F.mean(F.minimum(ratio * advantage, clipped * advantage))
        loss = policy + 0.5 * F.mean_squared_error(value, returns)
        rate = float((abs(ratio.array - 1) > self.clip).mean())
        chainer.report({"loss": loss, "clipped": rate}, self)
        return loss


def ppo(way: Way) -> Program:
    """Some epochs over a rollout, and a clipping that anneals."""
    model = way.graph(Clipped())
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), model)

    def rollout(rng):
        a, old = rng.randint(0, 2, 64).astype("i"), -abs(floats(rng, 64))
        return floats(rng, 64, 4), a, old, floats(rng, 64), floats(rng, 64)

    data = ring(rollout)

    def step(i):
        model.clip = 0.2 * (1 - i / 400)
        for k in (0, 32):
            part = slice(k, k + 32)
            optimizer.update(model, *[x[part] for x in data[i % 16]])
        return ()

    return Program(step, (model,))


def ddpg(way: Way) -> Program:
    """Two networks, two optimizers, targets that follow softly."""
    actor, critic = way.graph(MLP(4, 32, 1)), way.graph(MLP(5, 32, 1))
    actor_target, critic_target = copy.deepcopy(actor), copy.deepcopy(critic)
    actor_opt = way.optimizer(chainer.optimizers.Adam(1e-4), actor)
    critic_opt = way.optimizer(chainer.optimizers.Adam(1e-3), critic)
    data = ring(lambda rng: [floats(rng, 32, n) for n in (4, 1, 4, 1)])

    def step(i):
        s, a, n, r = data[i % 16]
        with chainer.no_backprop_mode():
            later = critic_target(F.concat((n, F.tanh(actor_target(n)))))
            y = r + 0.99 * later.array
        loss = F.mean_squared_error(critic(np.concatenate((s, a), axis=1)), y)
        critic.cleargrads()
        loss.backward()
        critic_opt.update()
        gain = -F.mean(critic(F.concat((s, F.tanh(actor(s))))))
        actor.cleargrads()
        gain.backward()
        actor_opt.update()
        for net, target in ((actor, actor_target), (critic, critic_target)):
            for p, q in zip(net.params(), target.params(), strict=True):
                q.array[...] = 0.99 * q.array + 0.01 * p.array
        return loss, gain

    return Program(step, (actor, critic))


def reinforce(way: Way) -> Program:
    """The loss of a whole episode; episodes are of any length."""
    policy = MLP(4, 32, 2)

    def episode(states, actions, returns):
        logp = F.select_item(F.log_softmax(policy(states)), actions)
        baseline = returns.mean()
        return -F.sum(logp * (returns - baseline)) / len(states)

    loss_of = way.graph(episode)
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), policy)

    def make(rng):
        n = rng.randint(5, 60)
        return floats(rng, n, 4), rng.randint(0, 2, n).astype("i"), floats(rng, n)

    data = ring(make, 400)

    def step(i):
        loss = loss_of(*data[i % 400])
        policy.cleargrads()
        loss.backward()
        optimizer.update()
        return loss

    return Program(step, (policy,))


def evolution(way: Way) -> Program:
    """No gradients: parameters are disturbed, judged, and moved in NumPy."""
    model = way.graph(MLP(4, 32, 2))
    rng = np.random.RandomState(4)
    x, y = floats(rng, 32, 4), floats(rng, 32, 2)

    def step(i):
        params = list(model.params())
        before = [p.array.copy() for p in params]
        noises, scores = [], []
        with chainer.no_backprop_mode():
            for _ in range(6):
                noise = [floats(rng, *p.shape) for p in params]
                for p, b, e in zip(params, before, noise, strict=True):
                    p.array[...] = b + 0.05 * e
                noises.append(noise)
                scores.append(-float(F.mean_squared_error(model(x), y).array))
        ranks = np.argsort(np.argsort(scores)) / 5 - 0.5
        for k, (p, b) in enumerate(zip(params, before, strict=True)):
            p.array = (b + 0.02 * sum(r * n[k] for r, n in zip(ranks, noises, strict=True))).astype(
                b.dtype
            )
        return scores

    return Program(step, (model,))


class Curious(chainer.Chain):
    """Predicts what comes next; the error is the reward, normalized by a running mean."""

    def __init__(self) -> None:
        super().__init__()
        with self.init_scope():
            self.features = MLP(4, 32, 8)
            self.forward_model = MLP(9, 32, 8)
        self.mean = 1.0

    def forward(self, s, a, n):
        """The loss; the bonus is kept for the agent."""
        with chainer.no_backprop_mode():
            goal = self.features(n).array
        error = F.sum((self.forward_model(F.concat((self.features(s), a))) - goal) ** 2, axis=1)
        self.mean = 0.99 * self.mean + 0.01 * float(error.array.mean())
        self.bonus = error.array / self.mean
        return F.mean(error)


def curiosity(way: Way) -> Program:
    """A running mean of a computed value, in an attribute."""
    model = way.graph(Curious())
    optimizer = way.optimizer(chainer.optimizers.Adam(1e-3), model)
    data = ring(lambda rng: [floats(rng, 32, n) for n in (4, 1, 4)])

    def step(i):
        optimizer.update(model, *data[i % 16])
        return model.mean, model.bonus

    return Program(step, (model,))
