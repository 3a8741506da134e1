"""Randomness, iterators and state that lies outside the chain."""

import collections
import dataclasses
import functools
import itertools
import os
import queue
import random
import secrets
import types
import uuid
from random import random as flip

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np
from numpy.random import default_rng, normal, rand, uniform

N = 6
own = random.Random(11)
pick = random.Random(3).random
noise_of = {"input": np.random.RandomState(5), "scale": 0.1}
perturb = functools.partial(np.random.standard_normal, (4, 3))


class Net(chainer.Chain):
    def __init__(self, **things):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(3, 5)
            self.l2 = L.Linear(5, 2)
        for name, thing in things.items():
            setattr(self, name, thing)

    def forward(self, x):
        return self.l2(F.relu(self.l1(x)))


def train(run, model, n=N, each=lambda i: None, rows=4):
    """A few iterations by hand."""
    for i in range(n):
        each(i)
        y = model(run.array(rows, 3))
        model.cleargrads()
        F.sum(y * y).backward()
        run.see("step", y, model.l1.W.grad, model.l2.W.grad)


def trained(run, forward, each=lambda model, i: None, n=N, **things):
    """The same with a method that a program gives."""
    cls = type("Model", (Net,), {"forward": forward, "__module__": __name__})
    model = run.static(cls(**things))
    train(run, model, n, each=lambda i: each(model, i))
    return model


# --- 10: draws ------------------------------------------------------------------------------
def p_10_skip_a_layer_by_a_coin(run):
    def forward(self, x):
        h = F.relu(self.l1(x))
        return self.l2(h * 2 if flip() < 0.5 else h)

    trained(run, forward)


def p_10_noise_of_rand_by_name(run):
    def forward(self, x):
        return self.l2(F.relu(self.l1(x)) + 0.1 * rand(4, 5).astype("f"))

    trained(run, forward)


def p_10_noise_of_normal_in_a_helper(run):
    def jitter(h):
        return h + normal(0, 0.3, h.shape).astype(h.dtype)

    def forward(self, x):
        return self.l2(jitter(F.relu(self.l1(x))))

    trained(run, forward)


def p_10_one_number_of_uniform_by_name(run):
    def forward(self, x):
        return self.l2(F.relu(self.l1(x)) * np.float32(uniform(0.5, 1.5)))

    trained(run, forward)


def p_10_sampler_kept_as_an_attribute(run):
    def forward(self, x):
        return self.l2(self.sampler(size=(4, 5)).astype("f") * self.l1(x))

    trained(run, forward, sampler=np.random.uniform)


def p_10_partial_of_a_draw(run):
    def forward(self, x):
        return self.l2(self.l1(x + perturb().astype("f")))

    trained(run, forward)


def p_10_bound_method_of_an_own_generator(run):
    def forward(self, x):
        y = self.l2(F.tanh(self.l1(x)))
        return y if pick() > 0.4 else -y

    trained(run, forward)


def p_10_own_generator_global(run):
    def forward(self, x):
        return self.l2(F.tanh(self.l1(x)) * own.choice([1.0, 2.0, 3.0]))

    trained(run, forward)


def p_10_bytes_of_the_system(run):
    def forward(self, x):
        scale = int.from_bytes(os.urandom(4), "little") / 2**32
        return self.l2(F.tanh(self.l1(x))) * scale

    sees_variety(run, forward)


def p_10_a_secret_number(run):
    def forward(self, x):
        return self.l2(F.tanh(self.l1(x))) * (1 + secrets.randbelow(10**6))

    sees_variety(run, forward)


def p_10_a_uuid(run):
    def forward(self, x):
        return self.l2(F.tanh(self.l1(x))) * (uuid.uuid4().int % 10**6)

    sees_variety(run, forward)


def p_10_a_number_of_a_new_generator(run):
    def forward(self, x):
        return self.l2(F.tanh(self.l1(x))) * (1 + float(np.random.default_rng().random()))

    sees_variety(run, forward)


def p_10_a_branch_on_a_new_generator_by_name(run):
    def forward(self, x):
        y = self.l2(F.tanh(self.l1(x)))
        for _ in range(20):
            y = y * 2 if default_rng().random() < 0.5 else y + 1
        return y

    sees_variety(run, forward)


def p_10_a_system_generator(run):
    dice = random.SystemRandom()

    def forward(self, x):
        return self.l2(F.tanh(self.l1(x))) * dice.uniform(1, 2)

    sees_variety(run, forward)


def sees_variety(run, forward):
    """No two runs draw the same: what counts is that calls differ."""
    cls = type("Model", (Net,), {"forward": forward, "__module__": __name__})
    model = run.static(cls())
    x = run.array(4, 3)
    outputs = [model(x).array.tobytes() for _ in range(N)]
    run.see("different", len(set(outputs)))


class Augment:
    def __init__(self, seed):
        self.rng = np.random.RandomState(seed)
        self.p = 0.5

    def __call__(self, h):
        return h * 1.5 if self.rng.uniform() < self.p else h


@dataclasses.dataclass
class Exploration:
    rng: np.random.Generator
    epsilon: float = 0.3

    def temperature(self):
        return float(1 + self.epsilon * self.rng.random())


def p_10_generator_in_an_object(run):
    def forward(self, x):
        return self.l2(self.augment(F.relu(self.l1(x))))

    trained(run, forward, augment=Augment(4))


def p_10_generator_in_a_dataclass(run):
    def forward(self, x):
        return self.l2(F.relu(self.l1(x))) / self.explore.temperature()

    trained(run, forward, explore=Exploration(np.random.default_rng(2)))


def p_10_generator_in_a_dict_of_the_link(run):
    def forward(self, x):
        keep = self.cfg["rng"].random() < 0.5
        return self.l2(F.relu(self.l1(x)) if keep else F.tanh(self.l1(x)))

    trained(run, forward, cfg={"rng": random.Random(8)})


def p_10_array_of_a_generator_in_a_global_dict(run):
    def forward(self, x):
        e = noise_of["input"].randn(4, 3).astype("f")
        return self.l2(F.relu(self.l1(x + noise_of["scale"] * e)))

    trained(run, forward)


def p_10_generator_that_nobody_draws_from(run):
    def forward(self, x):
        return self.l2(F.relu(self.l1(x))) * self.cfg["scale"]

    trained(run, forward, cfg={"rng": np.random.RandomState(8), "scale": 2.0})


def p_10_own_generator_in_training_only(run):
    def forward(self, x):
        h = F.relu(self.l1(x))
        if chainer.config.train:
            h = h * own.random()
        return self.l2(h)

    with chainer.using_config("train", False):
        trained(run, forward)


def p_10_dropout_between_draws(run):
    def forward(self, x):
        h = F.dropout(self.l1(x), 0.5) + rand(4, 5).astype("f")
        return self.l2(F.dropout(h, 0.2) * np.random.rand(4, 5).astype("f"))

    trained(run, forward)


def p_10_lazy_parameters_draw_once(run):
    class Lazy(chainer.Chain):
        def __init__(self):
            super().__init__()
            with self.init_scope():
                self.l1 = L.Linear(None, 5)
                self.l2 = L.Linear(None, 2)

        def forward(self, x):
            return self.l2(F.relu(self.l1(x)))

    train(run, run.static(Lazy()))


# --- 11: iterators ----------------------------------------------------------------------------
class Sampler:
    def __init__(self, values):
        self.it = iter(values)
        self.turns = itertools.cycle(values)

    def draw(self):
        return next(self.it)

    def turn(self):
        return next(self.turns)


def p_11_iterator_in_a_dict(run):
    def forward(self, x):
        return self.l2(F.relu(self.l1(x))) * next(self.feeds["scale"])

    trained(run, forward, feeds={"scale": iter([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])})


def p_11_iterator_in_an_object(run):
    def forward(self, x):
        return self.l2(F.relu(self.l1(x))) * self.sampler.it.__next__()

    trained(run, forward, sampler=Sampler([1, 2, 3, 4, 5, 6, 7]))


def p_11_cycle_in_an_object(run):
    def forward(self, x):
        h = self.l1(x)
        return self.l2(F.relu(h) if self.sampler.turn() else F.tanh(h))

    trained(run, forward, sampler=Sampler([True, False, False]))


schedules = {"t": itertools.count(1), "names": ["a"]}


def p_11_counter_in_a_global_dict(run):
    def forward(self, x):
        return self.l2(F.relu(self.l1(x))) * (1 / next(schedules["t"]))

    trained(run, forward)


def p_11_queue(run):
    jobs = queue.Queue()
    for i in range(N):
        jobs.put(1.0 + i)

    def forward(self, x):
        return self.l2(F.relu(self.l1(x))) * self.jobs.get()

    trained(run, forward, jobs=jobs)


def p_11_simple_queue_in_a_dict(run):
    jobs = queue.SimpleQueue()
    for i in range(N):
        jobs.put(1.0 + i)

    def forward(self, x):
        return self.l2(F.relu(self.l1(x))) * self.cfg["jobs"].get()

    trained(run, forward, cfg={"jobs": jobs})


def p_11_generator_in_a_tuple(run):
    def decays():
        scale = 1.0
        while True:
            yield scale
            scale *= 0.5

    def forward(self, x):
        y = self.l2(F.relu(self.l1(x)))
        for scale in self.parts[1]:
            return y * scale

    trained(run, forward, parts=("decay", decays()))


def p_11_bound_next(run):
    step = itertools.count().__next__

    def forward(self, x):
        return self.l2(F.relu(self.l1(x))) * (step() + 1)

    trained(run, forward)


def p_11_deque_that_rotates(run):
    ring = types.SimpleNamespace(turns=collections.deque([1.0, 2.0, 3.0]))

    def forward(self, x):
        ring.turns.rotate(1)
        return self.l2(F.relu(self.l1(x))) * ring.turns[0]

    trained(run, forward, n=10)


turned = False


def p_11_flag_that_the_call_turns(run):
    def forward(self, x):
        global turned
        turned = not turned
        return self.l2(F.relu(self.l1(x))) * (2 if turned else 1)

    trained(run, forward, n=10)


def p_11_iterator_of_the_call_itself(run):
    def forward(self, x):
        layers = iter([self.l1, self.l2])
        h = F.relu(next(layers)(x))
        return next(layers)(h)

    trained(run, forward)
