"""Reinforcement learning: replay buffers, policies, targets, returns."""

import collections
import copy
import random

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np

EPSILON = 0.5
STEPS = 0


class Q(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(4, 8)
            self.l2 = L.Linear(8, 3)

    def forward(self, s):
        return self.l2(F.tanh(self.l1(s)))


class ActorCritic(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.body = L.Linear(4, 8)
            self.pi = L.Linear(8, 3)
            self.v = L.Linear(8, 1)

    def both(self, s):
        h = F.tanh(self.body(s))
        return self.pi(h), self.v(h)[:, 0]


def batch(run, n=6):
    return (
        run.array(n, 4),
        run.labels(n, 3),
        run.array(n),
        run.array(n, 4),
        run.labels(n, 2).astype("f"),
    )


def dqn(run, loss, rounds=8, sync=3, optimizer="SGD"):
    """A static loss of q, target and a batch; the target synchronised now and then."""
    q = Q()
    target = copy.deepcopy(q)

    class Loss(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.q = q
            self.__dict__["target"] = target

        def forward(self, *args):
            return loss(self, *args)

    model = run.static(Loss())
    rule = run.optimizer(getattr(chainer.optimizers, optimizer)()).setup(model)
    for i in range(rounds):
        run.observe(model, rule.update, model, *batch(run, 3 if i == 4 else 6))
        if i % sync == sync - 1:
            target.copyparams(q)
        run.see("model", model, target)


def p_dqn_numpy_target(run):
    def loss(self, s, a, r, s2, done):
        with chainer.no_backprop_mode():
            best = self.target(s2).array.max(axis=1)
        y = r + 0.9 * (1 - done) * best
        return F.mean_squared_error(F.select_item(self.q(s), a), y.astype("f"))

    dqn(run, loss)


def p_dqn_variable_target(run):
    def loss(self, s, a, r, s2, done):
        best = F.max(self.target(s2), axis=1)
        y = r + 0.9 * (1 - done) * best
        y.unchain_backward()
        return F.mean(F.huber_loss(F.select_item(self.q(s), a), y, 1.0, reduce="no"))

    dqn(run, loss)


def p_dqn_double(run):
    def loss(self, s, a, r, s2, done):
        best = self.q(s2).array.argmax(axis=1)
        value = self.target(s2).array[np.arange(len(s)), best]
        return F.mean_squared_error(F.select_item(self.q(s), a), r + 0.9 * (1 - done) * value)

    dqn(run, loss)


def p_dqn_double_select_item(run):
    def loss(self, s, a, r, s2, done):
        best = F.argmax(self.q(s2), axis=1)
        value = F.select_item(self.target(s2), best)
        return F.sum((F.select_item(self.q(s), a) - (r + 0.9 * (1 - done) * value.array)) ** 2)

    dqn(run, loss, optimizer="Adam")


def p_dqn_copy_targets_in_place(run):
    def loss(self, s, a, r, s2, done):
        y = self.q(s)
        t = y.array.copy()
        t[np.arange(len(s)), a] = r + 0.9 * (1 - done) * self.target(s2).array.max(1)
        return F.mean_squared_error(y, t)

    dqn(run, loss)


def p_dqn_loop_targets(run):
    def loss(self, s, a, r, s2, done):
        y = self.q(s)
        t = y.array.copy()
        best = self.target(s2).array.max(1)
        for i in range(len(s)):
            t[i, a[i]] = r[i] if done[i] else r[i] + 0.9 * best[i]
        return F.mean_squared_error(y, t)

    dqn(run, loss)


def p_dqn_where_done(run):
    def loss(self, s, a, r, s2, done):
        t = np.where(done > 0, r, r + 0.9 * self.target(s2).array.max(1)).astype("f")
        return F.mean_absolute_error(F.select_item(self.q(s), a), t)

    dqn(run, loss)


def p_dqn_clipped_error(run):
    def loss(self, s, a, r, s2, done):
        t = r + 0.9 * (1 - done) * self.target(s2).array.max(1)
        e = F.select_item(self.q(s), a) - t
        return F.sum(F.where(abs(e.array) < 1, 0.5 * e * e, abs(e) - 0.5))

    dqn(run, loss)


def p_dqn_clip_reward_sign(run):
    def loss(self, s, a, r, s2, done):
        return F.mean_squared_error(F.select_item(self.q(s), a), np.sign(r) + np.clip(r, -1, 1))

    dqn(run, loss)


def p_dqn_reports_average_q(run):
    def loss(self, s, a, r, s2, done):
        y = self.q(s)
        self.average_q = getattr(self, "average_q", 0.0) * 0.9 + 0.1 * float(y.array.max(1).mean())
        chainer.report({"q": F.mean(F.max(y, axis=1)), "average": self.average_q}, self)
        return F.mean_squared_error(F.select_item(y, a), r)

    dqn(run, loss)


def p_dqn_average_q_array(run):
    def loss(self, s, a, r, s2, done):
        y = self.q(s)
        self.mean_q = y.array.mean()
        chainer.report({"q": y.array.max(1).mean()}, self)
        return F.mean_squared_error(F.select_item(y, a), r)

    dqn(run, loss)


def p_dqn_prioritised(run):
    def loss(self, s, a, r, s2, done):
        e = F.select_item(self.q(s), a) - (r + 0.9 * self.target(s2).array.max(1))
        self.priorities = np.abs(e.array) + 1e-3
        weights = self.priorities / self.priorities.sum()
        return F.sum(weights**-0.5 * F.square(e)) / len(s)

    dqn(run, loss)


def p_dqn_categorical_projection(run):
    def loss(self, s, a, r, s2, done):
        z = np.linspace(-1, 1, 3).astype("f")
        p = F.softmax(self.target(s2)).array
        tz = np.clip(r[:, None] + 0.9 * (1 - done)[:, None] * z, -1, 1)
        b = tz + 1
        low, high = np.floor(b).astype("i"), np.ceil(b).astype("i")
        m = np.zeros_like(p)
        for j in range(3):
            np.add.at(m, (np.arange(len(s)), low[:, j]), p[:, j] * (high - b + (low == high))[:, j])
            np.add.at(m, (np.arange(len(s)), high[:, j]), p[:, j] * (b - low)[:, j])
        return -F.sum(m * F.log_softmax(self.q(s)))

    dqn(run, loss)


def p_dqn_quantile(run):
    def loss(self, s, a, r, s2, done):
        theta = self.q(s)
        target = r[:, None] + 0.9 * self.target(s2).array
        u = target[:, None] - F.broadcast_to(theta[:, :, None], (len(s), 3, 3))
        tau = (np.arange(3, dtype="f") + 0.5) / 3
        return F.mean(
            abs(tau[None, :, None] - (u.array < 0))
            * F.huber_loss(
                F.broadcast_to(theta[:, :, None], (len(s), 3, 3)),
                np.broadcast_to(target[:, None], (len(s), 3, 3)),
                1,
                reduce="no",
            )
        )

    dqn(run, loss)


def p_dqn_soft_update(run):
    q = Q()
    target = copy.deepcopy(q)
    compute = run.static(lambda s, a, y: F.mean_squared_error(F.select_item(q(s), a), y))
    rule = chainer.optimizers.Adam().setup(q)
    for _ in range(8):
        s, a, r, s2, done = batch(run)
        with chainer.no_backprop_mode():
            y = r + 0.9 * (1 - done) * target(s2).array.max(1)
        rule.update(compute, s, a, y)
        for p, t in zip(q.params(), target.params(), strict=True):
            t.array[...] = 0.9 * t.array + 0.1 * p.array
        run.see("q", q, target)


def p_dqn_soft_update_rebinding(run):
    q, target = run.static(Q()), run.static(Q())
    rule = run.optimizer(chainer.optimizers.SGD()).setup(q)
    for _ in range(8):
        s, a, r, s2, _ = batch(run)
        y = r + 0.9 * target(s2).array.max(1)
        rule.update(lambda s=s, a=a, y=y: F.mean_squared_error(F.select_item(q(s), a), y))
        source = dict(q.namedparams())
        for name, t in target.namedparams():
            t.array = 0.9 * t.array + 0.1 * source[name].array
        run.see("q", q, target)


def p_target_is_swapped(run):
    q = run.static(Q())
    target = q.copy(mode="copy")
    for i in range(8):
        s, _, _, s2, _ = batch(run)
        y = q(s) - target(s2).array
        q.cleargrads()
        F.sum(y * y).backward()
        for p in q.params():
            p.array -= 0.1 * p.grad
        if i % 3 == 2:
            target = q.copy(mode="copy")
        run.see("q", y, q, target)


def act(run, choose, rounds=10):
    """A static network, and a choice around it."""
    q = run.static(Q())
    for i in range(rounds):
        with chainer.using_config("train", False), chainer.no_backprop_mode():
            run.see("action", choose(q, run.array(1, 4), i))


def p_act_greedy(run):
    act(run, lambda q, s, i: int(q(s).array.argmax()))


def p_act_epsilon(run):
    def choose(q, s, i):
        return np.random.randint(3) if np.random.rand() < 0.5 else int(q(s).array[0].argmax())

    act(run, choose)


def p_act_epsilon_decayed_global(run):
    def choose(q, s, i):
        global EPSILON
        EPSILON *= 0.9
        return random.randrange(3) if random.random() < EPSILON else F.argmax(q(s)).item()

    act(run, choose)


def p_act_softmax_choice(run):
    def choose(q, s, i):
        p = F.softmax(q(s)).array[0].astype("d")
        return np.random.choice(3, p=p / p.sum())

    act(run, choose)


def inside(run, body, rounds=10, **attributes):
    """The choice is part of the static method."""

    class Agent(Q):
        act = run.static(body)

    agent = Agent()
    for name, value in attributes.items():
        setattr(agent, name, value)
    for i in range(rounds):
        agent.i = i
        run.see("action", agent.act(run.array(2, 4)), agent)


def p_inside_greedy(run):
    inside(run, lambda self, s: self(s).array.argmax(axis=1))


def p_inside_greedy_int(run):
    inside(run, lambda self, s: int(self(s).array[0].argmax()))


def p_inside_argmax_variable(run):
    inside(run, lambda self, s: F.argmax(self(s), axis=1))


def p_inside_epsilon_branch(run):
    def body(self, s):
        if np.random.rand() < 0.3:
            return np.random.randint(0, 3, len(s))
        return self(s).array.argmax(1)

    inside(run, body)


def p_inside_epsilon_where(run):
    def body(self, s):
        explore = np.random.rand(len(s)) < 0.3
        return np.where(explore, np.random.randint(0, 3, len(s)), self(s).array.argmax(1))

    inside(run, body)


def p_inside_epsilon_attribute(run):
    def body(self, s):
        explore = np.random.rand(len(s)) < self.epsilon
        self.epsilon *= 0.9
        return np.where(explore, 0, self(s).array.argmax(1))

    inside(run, body, epsilon=1.0)


def p_inside_epsilon_schedule(run):
    def body(self, s):
        epsilon = max(0.1, 1 - 0.2 * self.i)
        return np.where(np.random.rand(len(s)) < epsilon, -1, self(s).array.argmax(1))

    inside(run, body)


def p_inside_step_counter(run):
    def body(self, s):
        self.steps += 1
        return self(s) * (1 if self.steps < 5 else 2)

    inside(run, body, steps=0)


def p_inside_global_steps(run):
    def body(self, s):
        global STEPS
        STEPS += 1
        return self(s) * min(STEPS, 5)

    inside(run, body)


def p_inside_choice_p(run):
    def body(self, s):
        p = F.softmax(self(s)).array.astype("d")
        return np.array([np.random.choice(3, p=q / q.sum()) for q in p])

    inside(run, body)


def p_inside_cumsum_sample(run):
    def body(self, s):
        p = F.softmax(self(s)).array
        return (p.cumsum(axis=1) < np.random.rand(len(s), 1)).sum(axis=1)

    inside(run, body)


def p_inside_gaussian_action(run):
    def body(self, s):
        mean = self(s)
        return mean + np.random.normal(0, 0.1, mean.shape).astype("f")

    inside(run, body)


def p_inside_ou_noise(run):
    def body(self, s):
        self.noise = 0.9 * self.noise + 0.1 * np.random.randn(3).astype("f")
        return self(s).array + self.noise

    inside(run, body, noise=np.zeros(3, "f"))


def p_inside_ou_noise_in_place(run):
    def body(self, s):
        self.noise += -0.1 * self.noise + 0.1 * np.random.randn(3)
        return self(s).array + self.noise

    inside(run, body, noise=np.zeros(3))


def p_inside_visit_counts(run):
    def body(self, s):
        a = self(s).array.argmax(1)
        for k in a:
            self.visits[k] += 1
        return a

    inside(run, body, visits=np.zeros(3, "i"))


def p_inside_ucb(run):
    def body(self, s):
        bonus = np.sqrt(np.log(self.visits.sum() + 1) / (self.visits + 1)).astype("f")
        a = (self(s).array + bonus).argmax(1)
        self.visits = self.visits + np.bincount(a, minlength=3)
        return a

    inside(run, body, visits=np.zeros(3, "i"))


def p_inside_observation_normalised(run):
    def body(self, s):
        self.count += len(s)
        delta = s.mean(0) - self.mean
        self.mean = self.mean + delta * len(s) / self.count
        return self((s - self.mean).astype("f"))

    inside(run, body, count=0, mean=np.zeros(4, "f"))


def p_inside_observation_stack(run):
    def body(self, s):
        self.frames = np.concatenate([self.frames[:, 1:], s[:, :1]], axis=1)
        return self(self.frames)

    inside(run, body, frames=np.zeros((2, 4), "f"))


def p_inside_frames_deque(run):
    def body(self, s):
        self.frames.append(s[:, 0])
        return self(np.stack(list(self.frames), axis=1))

    inside(run, body, frames=collections.deque([np.zeros(2, "f")] * 4, maxlen=4))


def p_inside_mask_illegal(run):
    def body(self, s):
        legal = np.zeros((len(s), 3), "f")
        legal[:, self.i % 3] = -1e9
        return (self(s).array + legal).argmax(1)

    inside(run, body)


def p_inside_noisy_net(run):
    def body(self, s):
        e = np.random.randn(8, 4).astype("f")
        return self.l2(F.tanh(F.linear(s, self.l1.W + 0.1 * e, self.l1.b)))

    inside(run, body)


def policy(run, loss, rounds=8, static_model=True, optimizer="SGD"):
    class Model(ActorCritic):
        def forward(self, *args):
            return loss(self, *args)

    model = run.static(Model())
    rule = run.optimizer(getattr(chainer.optimizers, optimizer)()).setup(model)
    for i in range(rounds):
        run.observe(model, rule.update, model, *batch(run, 4 if i == 5 else 6))
        run.see("model", model)


def p_reinforce_returns_loop(run):
    def loss(self, s, a, r, s2, done):
        g, returns = 0.0, []
        for x in r[::-1]:
            g = x + 0.9 * g
            returns.insert(0, g)
        returns = np.array(returns, "f")
        logits, _ = self.both(s)
        return -F.sum(F.select_item(F.log_softmax(logits), a) * returns)

    policy(run, loss)


def p_reinforce_returns_with_done(run):
    def loss(self, s, a, r, s2, done):
        returns, g = np.zeros_like(r), 0
        for i in reversed(range(len(r))):
            g = r[i] + 0.9 * g * (1 - done[i])
            returns[i] = g
        logits, _ = self.both(s)
        return -F.mean(F.select_item(F.log_softmax(logits), a) * returns)

    policy(run, loss)


def p_reinforce_normalised(run):
    def loss(self, s, a, r, s2, done):
        r = (r - r.mean()) / (r.std() + 1e-6)
        return -F.sum(F.select_item(F.log_softmax(self.both(s)[0]), a) * r)

    policy(run, loss)


def p_reinforce_baseline_attribute(run):
    def loss(self, s, a, r, s2, done):
        baseline = getattr(self, "baseline", 0.0)
        self.baseline = 0.9 * baseline + 0.1 * r.mean()
        return -F.sum(F.select_item(F.log_softmax(self.both(s)[0]), a) * (r - baseline))

    policy(run, loss)


def p_a2c_array_advantage(run):
    def loss(self, s, a, r, s2, done):
        logits, v = self.both(s)
        with chainer.no_backprop_mode():
            _, v2 = self.both(s2)
        target = r + 0.9 * (1 - done) * v2.array
        advantage = target - v.array
        logs = F.log_softmax(logits)
        entropy = -F.sum(F.exp(logs) * logs)
        chainer.report({"entropy": entropy, "advantage": advantage.mean()}, self)
        return (
            F.mean_squared_error(v, target)
            - F.sum(F.select_item(logs, a) * advantage)
            - 0.01 * entropy
        )

    policy(run, loss)


def p_gae_loop(run):
    def loss(self, s, a, r, s2, done):
        logits, v = self.both(s)
        value, after = v.array, self.both(s2)[1].array
        advantage, g = np.zeros(len(r), "f"), 0.0
        for i in range(len(r) - 1, -1, -1):
            delta = r[i] + 0.9 * after[i] * (1 - done[i]) - value[i]
            g = delta + 0.8 * (1 - done[i]) * g
            advantage[i] = g
        return -F.mean(F.select_item(F.log_softmax(logits), a) * advantage) + F.mean(
            (v - (advantage + value)) ** 2
        )

    policy(run, loss)


def p_gae_matrix(run):
    def loss(self, s, a, r, s2, done):
        logits, v = self.both(s)
        delta = r + 0.9 * self.both(s2)[1].array - v.array
        k = np.arange(len(r))
        decay = np.triu(0.8 ** np.maximum(k[None] - k[:, None], 0)).astype("f")
        return -F.mean(F.select_item(F.log_softmax(logits), a) * (decay @ delta))

    policy(run, loss)


def p_ppo_clip(run):
    def loss(self, s, a, r, s2, done):
        logits, v = self.both(s)
        logs = F.select_item(F.log_softmax(logits), a)
        old = getattr(self, "old", None)
        if old is None or old.shape != logs.shape:
            old = logs.array
        ratio = F.exp(logs - old)
        self.old = logs.array
        return -F.mean(F.minimum(ratio * r, F.clip(ratio, 0.8, 1.2) * r)) + F.mean((v - r) ** 2)

    policy(run, loss)


def p_ppo_epochs(run):
    model = ActorCritic()

    @run.static
    def loss(s, a, old, advantage, clip):
        logs = F.select_item(F.log_softmax(model.both(s)[0]), a)
        ratio = F.exp(logs - old)
        return -F.mean(F.minimum(ratio * advantage, F.clip(ratio, 1 - clip, 1 + clip) * advantage))

    rule = chainer.optimizers.Adam().setup(model)
    for i in range(4):
        s, a, r, _, _ = batch(run, 8)
        with chainer.no_backprop_mode():
            old = F.select_item(F.log_softmax(model.both(s)[0]), a).array
        for _ in range(2):
            order = np.random.permutation(8)
            for k in (order[:4], order[4:]):
                rule.update(loss, s[k], a[k], old[k], r[k], 0.2 / (1 + i))
        run.see("model", model)


def p_ppo_kl_stop_inside(run):
    def loss(self, s, a, r, s2, done):
        logs = F.log_softmax(self.both(s)[0])
        kl = float(F.mean(-logs).array)
        if kl > 1.2:
            return F.sum(logs) * 0
        return -F.mean(F.select_item(logs, a) * r)

    policy(run, loss)


def p_sac_like_sample(run):
    def loss(self, s, a, r, s2, done):
        mean, v = self.both(s)
        action = F.tanh(mean + 0.1 * np.random.randn(*mean.shape).astype("f"))
        return F.sum(action * F.softplus(mean)) - F.sum(v * r)

    policy(run, loss)


def p_temperature_parameter(run):
    def loss(self, s, a, r, s2, done):
        if not hasattr(self, "log_alpha"):
            with self.init_scope():
                self.log_alpha = chainer.Parameter(np.zeros((), "f"))
        logs = F.log_softmax(self.both(s)[0])
        entropy = -F.sum(F.exp(logs) * logs, axis=1)
        return F.mean(F.exp(self.log_alpha) * (entropy.array - 0.5)) - F.mean(
            F.select_item(logs, a) * r
        )

    policy(run, loss)


def p_importance_weights(run):
    def loss(self, s, a, r, s2, done):
        logits, _ = self.both(s)
        p = F.softmax(logits).array[np.arange(len(a)), a]
        weight = np.minimum(1, p / 0.3)
        return -F.sum(F.select_item(F.log_softmax(logits), a) * weight * r)

    policy(run, loss)


def p_advantage_topk(run):
    def loss(self, s, a, r, s2, done):
        best = np.argsort(-r)[: len(r) // 2]
        return -F.sum(F.select_item(F.log_softmax(self.both(s[best])[0]), a[best]))

    policy(run, loss)


def p_curiosity_running_std(run):
    def loss(self, s, a, r, s2, done):
        e = F.sum((self.body(s) - self.body(s2).array) ** 2, axis=1)
        self.m = getattr(self, "m", np.ones((), "f")) * 0.9 + 0.1 * e.array.std()
        return F.mean(e / self.m)

    policy(run, loss)


class Pole:
    """A toy environment."""

    def __init__(self, rng):
        self.rng = rng

    def reset(self):
        self.s, self.n = self.rng.randn(4).astype("f"), 0
        return self.s

    def step(self, a):
        self.s = (0.9 * self.s + 0.1 * (a - 1)).astype("f")
        self.n += 1
        return self.s, float(abs(self.s).sum()), self.n >= 5


def p_replay_buffer_loop(run):
    q = Q()
    target = q.copy("copy")
    predict = run.static(lambda s: q(s))
    rule = run.optimizer(chainer.optimizers.SGD()).setup(q)
    buffer, env = collections.deque(maxlen=12), Pole(run.rng)

    @run.static
    def compute(s, a, r, s2, done):
        best = F.max(target(s2), axis=1).array
        return F.mean_squared_error(F.select_item(q(s), a), r + 0.9 * best * (1 - done))

    for episode in range(5):
        s, done = env.reset(), False
        while not done:
            if random.random() < 0.3:
                a = random.randrange(3)
            else:
                a = int(predict(s[None]).array.argmax())
            s2, r, done = env.step(a)
            buffer.append((s, a, r, s2, done))
            s = s2
            if len(buffer) >= 4:
                parts = zip(*random.sample(buffer, 4), strict=True)
                s_, a_, r_, s2_, d_ = (np.asarray(p) for p in parts)
                rule.update(compute, s_, a_.astype("i"), r_.astype("f"), s2_, d_.astype("f"))
        if episode % 2:
            target.copyparams(q)
        run.see("q", q, list(buffer)[-1])


def p_episode_losses_accumulate(run):
    model = run.static(Q())
    rule = chainer.optimizers.SGD().setup(model)
    env = Pole(run.rng)
    for _ in range(5):
        s, done, logs, rewards = env.reset(), False, [], []
        while not done:
            log = F.log_softmax(model(s[None]))
            a = np.random.choice(
                3, p=np.exp(log.array[0].astype("d")) / np.exp(log.array[0].astype("d")).sum()
            )
            s, r, done = env.step(a)
            logs.append(log[0, a])
            rewards.append(r)
        returns = np.cumsum(rewards[::-1])[::-1]
        total = -sum(v * float(g) for v, g in zip(logs, returns, strict=True))
        model.cleargrads()
        total.backward()
        rule.update()
        run.see("model", total, model)


def p_buffer_arrays_overwritten(run):
    q = run.static(Q())
    ring = np.zeros((4, 4), "f")
    ys = []
    for i in range(8):
        ring[i % 4] = run.array(4)
        ys.append(q(ring))
        run.see("y", ys[-1])
    run.see("all", ys)


def p_buffer_views(run):
    q = run.static(Q())
    memory = run.array(20, 4)
    for _ in range(8):
        k = np.random.randint(0, 14)
        y = q(memory[k : k + 6])
        memory[k] = y.array.sum()
        q.cleargrads()
        F.sum(y).backward()
        run.see("y", y, q)


def p_two_agents_share_torso(run):
    torso = L.Linear(4, 8)

    class Agent(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.torso = torso
                self.head = L.Linear(8, 3)

        @run.static
        def forward(self, s):
            return self.head(F.tanh(self.torso(s)))

    a, b = Agent(), Agent()
    rules = [chainer.optimizers.SGD().setup(m) for m in (a, b)]
    for i in range(8):
        agent, rule = (a, rules[0]) if i % 2 else (b, rules[1])
        a.cleargrads()
        b.cleargrads()
        F.sum(agent(run.array(4, 4)) ** 2).backward()
        rule.update()
        run.see("agents", a, b)


def p_ddpg(run):
    actor, critic = Q(), L.Linear(7, 1)
    policy_loss = run.static(lambda s: -F.mean(critic(F.concat([s, F.tanh(actor(s))]))))
    value_loss = run.static(lambda s, a, y: F.mean_squared_error(critic(F.concat([s, a]))[:, 0], y))
    ra, rc = chainer.optimizers.SGD().setup(actor), chainer.optimizers.SGD().setup(critic)
    for _ in range(8):
        s, _, r, s2, _ = batch(run)
        a = np.tanh(actor(s).array) + 0.1 * np.random.randn(6, 3).astype("f")
        y = r + 0.9 * critic(np.concatenate([s2, np.tanh(actor(s2).array)], 1)).array[:, 0]
        rc.update(value_loss, s, a, y)
        critic.cleargrads()
        ra.update(policy_loss, s)
        run.see("both", actor, critic)
