"""Networks that act: a DQN on frames, a PPO-like actor-critic."""

from __future__ import annotations

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np

from .harness import Network

N_ACTIONS = 4


class Frames(chainer.Chain):
    """Three convolutions as in the Atari networks, for frames of 36 by 36."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.conv1 = L.Convolution2D(2, 4, 8, stride=4)
            self.conv2 = L.Convolution2D(4, 6, 4, stride=2)
            self.conv3 = L.Convolution2D(6, 6, 3, pad=1)
            self.fc = L.Linear(None, 16)

    def forward(self, x):
        h = F.relu(self.conv1(x))
        h = F.relu(self.conv2(h))
        h = F.relu(self.conv3(h))
        return F.relu(self.fc(h))


class Values(chainer.Chain):
    """One value per action."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.trunk = Frames()
            self.out = L.Linear(16, N_ACTIONS)

    def forward(self, x):
        return self.out(self.trunk(x))


class Targets(chainer.Chain):
    """Double DQN: the online network chooses, the other one judges."""

    def __init__(self, online, judge):
        super().__init__()
        with self.init_scope():
            self.online = online
            self.judge = judge

    def forward(self, reward, not_done, after):
        best = F.argmax(self.online(after), axis=1)
        return reward + 0.99 * (F.select_item(self.judge(after), best) * not_done)


class TdLoss(chainer.Chain):
    """Mean Huber loss of the chosen actions."""

    def __init__(self, online):
        super().__init__()
        with self.init_scope():
            self.online = online

    def forward(self, frames, action, target):
        value = F.select_item(self.online(frames), action)
        self.loss = F.mean(F.huber_loss(value, target, delta=1.0, reduce="no"))
        return self.loss


class Dqn(Network):
    """The targets without gradients, then an update."""

    traces = (1, 1)

    def build(self):
        online = Values()
        self.targets = self.style.model(Targets(online, Values()))
        self.model = self.style.model(TdLoss(online))
        self.targets.cleargrads()  # those of the other network stay empty
        self.add(self.targets, self.model)
        self.optimizer = self.style.optimizer(chainer.optimizers.Adam(eps=1e-2)).setup(self.model)

    def iterate(self, i):
        frames, after = self.random.rand(2, 3, 2, 36, 36).astype(np.float32)
        reward = self.random.rand(3).astype(np.float32)
        not_done = np.array([1, 0, 1], np.float32)
        action = self.random.randint(0, N_ACTIONS, 3).astype(np.int32)
        with chainer.using_config("train", False), chainer.no_backprop_mode():
            target = self.targets(reward, not_done, after)
        loss = self.style.train(self.optimizer, self.model, frames, action, target.array)
        return [target.array, loss]


class ActorCritic(chainer.Chain):
    """The clipped objective of PPO on a common trunk."""

    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.trunk = Frames()
            self.policy = L.Linear(16, N_ACTIONS)
            self.value = L.Linear(16, 1)

    def forward(self, frames, action, advantage, returns, old_log_p):
        h = self.trunk(frames)
        log_p = F.log_softmax(self.policy(h))
        value = F.reshape(self.value(h), (-1,))
        ratio = F.exp(F.select_item(log_p, action) - old_log_p)
        clipped = F.clip(ratio, 0.8, 1.2)
        gain = F.mean(F.minimum(ratio * advantage, clipped * advantage))
        entropy = -F.mean(F.sum(F.exp(log_p) * log_p, axis=1))
        error = F.mean_squared_error(value, returns)
        self.loss = 0.5 * error - gain - 0.01 * entropy
        return self.loss


class Ppo(Network):
    def make(self):
        return ActorCritic()

    def data(self, i):
        frames = self.random.rand(5, 2, 36, 36).astype(np.float32)
        action = self.random.randint(0, N_ACTIONS, 5).astype(np.int32)
        advantage, returns = self.random.standard_normal((2, 5)).astype(np.float32)
        old_log_p = np.log(self.random.uniform(0.15, 0.4, 5)).astype(np.float32)
        return frames, action, advantage, returns, old_log_p
