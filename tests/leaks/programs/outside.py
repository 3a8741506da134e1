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
            y = y * 2 + 1 if default_rng().random() < 0.5 else y * 2  # no two ways give the same
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


# --- 12: sizes --------------------------------------------------------------------------------
def p_12_long_list_of_mixed_things(run):
    table = [(float(i), "a") for i in range(200)]

    def forward(self, x):
        return self.l2(F.relu(self.l1(x))) * table[100][0]

    def each(model, i):
        table[100] = (1.0 + i // 3, "a")

    trained(run, forward, each)


def p_12_long_list_of_lists_changed_inside(run):
    table = [[float(i)] for i in range(300)]

    def forward(self, x):
        return self.l2(F.relu(self.l1(x))) * table[150][0]

    def each(model, i):
        table[150][0] = 1.0 + i // 3

    trained(run, forward, each)


def p_12_many_numbers(run):
    table = [1.0] * 20_000

    def forward(self, x):
        return self.l2(F.relu(self.l1(x))) * table[15_000]

    def each(model, i):
        table[15_000] = 1.0 + i // 3

    trained(run, forward, each)


def p_12_dict_of_many_numbers(run):
    table = dict.fromkeys(range(20_000), 1.0)

    def forward(self, x):
        return self.l2(F.relu(self.l1(x))) * table[19_000]

    def each(model, i):
        table[19_000] = 1.0 + i // 3

    trained(run, forward, each)


def p_12_many_objects(run):
    cells = [types.SimpleNamespace(gain=1.0) for _ in range(1500)]

    def forward(self, x):
        return self.l2(F.relu(self.l1(x))) * self.cells[1400].gain

    def each(model, i):
        cells[1400].gain = 1.0 + i // 3

    trained(run, forward, each, cells=cells)


def p_12_deep(run):
    leaf = {"gain": 1.0}
    tree = functools.reduce(lambda inner, _: {"in": inner}, range(14), leaf)

    def forward(self, x):
        node = self.tree
        while "in" in node:
            node = node["in"]
        return self.l2(F.relu(self.l1(x))) * node["gain"]

    def each(model, i):
        leaf["gain"] = 1.0 + i // 3

    trained(run, forward, each, tree=tree)


def p_12_many_arrays(run):
    gains = [np.ones(1, "f") for _ in range(100)]

    def forward(self, x):
        return self.l2(F.relu(self.l1(x))) * float(np.sum(self.gains[90]))

    def each(model, i):
        gains[90][0] = 1.0 + i // 3

    trained(run, forward, each, gains=gains)


def p_12_a_large_array_in_an_object(run):
    box = types.SimpleNamespace(table=np.ones(3 << 20, "f"))

    def forward(self, x):
        return self.l2(F.relu(self.l1(x))) * np.sqrt(box.table[1234567:1234569])

    def each(model, i):
        if i == 3:
            box.table[1234567] = 4.0

    trained(run, forward, each)


# --- 13: classes, dictionaries, shapes ----------------------------------------------------------
class Cfg:
    mask = np.ones(5, "f")
    gain = 1.0
    gains = [1.0, 1.0]  # noqa: RUF012
    extra = types.SimpleNamespace(gain=1.0)
    act = staticmethod(F.relu)


def fresh(**things):
    """A class of its own for one program."""
    return type("Settings", (), things)


def p_13_class_array_rebound(run):
    def forward(self, x):
        return self.l2(self.l1(x) * Cfg.mask)

    def each(model, i):
        Cfg.mask = np.full(5, 1.0 + i // 3, "f")

    trained(run, forward, each, n=10)


def p_13_class_array_rebound_by_numpy(run):
    cfg = fresh(weights=np.ones((4, 5), "f"))

    def forward(self, x):
        return self.l2(F.relu(self.l1(x)) + np.sqrt(cfg.weights))

    def each(model, i):
        if i >= 3:
            cfg.weights = np.full((4, 5), 2.0 + i, "f")

    trained(run, forward, each)


def p_13_array_of_the_links_class(run):
    class Masked(Net):
        mask = np.ones(5, "f")

        def forward(self, x):
            return self.l2(F.relu(self.l1(x)) * self.mask)

    def each(i):
        if i == 3:
            Masked.mask = np.arange(5, dtype="f")

    train(run, run.static(Masked()), each=each)


def p_13_class_number_and_list_rebound(run):
    def forward(self, x):
        return self.l2(F.relu(self.l1(x))) * Cfg.gain * Cfg.gains[0]

    def each(model, i):
        Cfg.gain = 1.0 + i // 2
        if i == 3:
            Cfg.gains = [5.0, 1.0]

    trained(run, forward, each)


def p_13_class_object_rebound(run):
    def forward(self, x):
        return self.l2(F.relu(self.l1(x))) * Cfg.extra.gain

    def each(model, i):
        if i >= 3:
            Cfg.extra = types.SimpleNamespace(gain=float(i))

    trained(run, forward, each)


def p_13_class_attribute_of_an_instance(run):
    class Options:
        weight = np.ones(2, "f")

    options = Options()

    def forward(self, x):
        return self.l2(F.relu(self.l1(x))) * options.weight

    def each(model, i):
        if i == 2:
            Options.weight = np.full(2, 3.0, "f")
        if i == 5:
            options.weight = np.full(2, 9.0, "f")

    trained(run, forward, each)


def p_13_array_in_a_class_of_a_class(run):
    class Options:
        class Loss:
            weight = np.ones(2, "f")

    def forward(self, x):
        return self.l2(F.relu(self.l1(x))) * Options.Loss.weight

    def each(model, i):
        if i == 3:
            Options.Loss.weight = np.full(2, 7.0, "f")

    trained(run, forward, each)


def p_13_static_method_rebound(run):
    def forward(self, x):
        return self.l2(Cfg.act(self.l1(x)))

    def each(model, i):
        if i == 3:
            Cfg.act = staticmethod(F.tanh)

    trained(run, forward, each)


def p_13_number_through_the_dictionary(run):
    def forward(self, x):
        y = self.l2(F.relu(self.l1(x)))
        for _ in range(self.repeat):
            y = y * 2
        return y

    def each(model, i):
        model.__dict__["repeat"] = 1 + i // 3

    trained(run, forward, each, repeat=1)


def p_13_float_and_flag_through_vars(run):
    def forward(self, x):
        h = self.l1(x)
        return self.l2(F.relu(h) if self.sharp else F.tanh(h)) * self.gain

    def each(model, i):
        vars(model).update(sharp=i < 3, gain=1.0 + i)

    trained(run, forward, each, sharp=True, gain=1.0)


def p_13_child_through_the_dictionary(run):
    other = L.Linear(5, 2)

    def forward(self, x):
        return self.l2(F.relu(self.l1(x)))

    def each(model, i):
        if i == 4:
            model.__dict__["l2"] = other

    trained(run, forward, each)


def p_13_text_through_object_setattr(run):
    def forward(self, x):
        return self.l2(getattr(F, self.activation)(self.l1(x)))

    def each(model, i):
        object.__setattr__(model, "activation", "relu" if i < 3 else "sigmoid")

    trained(run, forward, each, activation="relu")


def p_13_number_through_the_dictionary_in_a_whole_step(run):
    class Scaled(Net):
        def forward(self, x):
            return super().forward(x) * (2 if self.double else 1)

    net = Scaled(double=False)
    model = run.static(L.Classifier(net))
    optimizer = run.optimizer(chainer.optimizers.SGD(0.1)).setup(model)
    for i in range(7):
        net.__dict__["double"] = i in (3, 4)
        optimizer.update(model, run.array(4, 3), run.labels(4, 2))
        run.see("loss", model.loss, model)


def p_13_number_through_the_dictionary_within(run):
    def forward(self, x):
        self.__dict__["calls"] = self.__dict__.get("calls", 0) + 1
        return self.l2(F.relu(self.l1(x))) * self.calls

    trained(run, forward)


def p_13_shape_set_within(run):
    def forward(self, x):
        h = F.relu(self.l1(x)).array
        h.shape = (2, 10)
        return F.sum(self.l2(h.reshape(4, 5)), axis=0) + float(h.shape[1])

    trained_arrays(run, forward)


def p_13_shape_of_an_argument_set_within(run):
    def forward(self, x):
        x.shape = (4, 3)
        return self.l2(F.relu(self.l1(x)))

    model = run.static(type("Model", (Net,), {"forward": forward, "__module__": __name__})())
    for _ in range(N):
        x = run.array(12)
        y = model(x)
        run.see("output and argument", y, x)


def p_13_shape_of_a_copy_set_within(run):
    def forward(self, x):
        flat = x * 2
        flat.shape = (12,)
        return self.l2(F.relu(self.l1(flat.reshape(4, 3))))

    trained_arrays(run, forward)


def p_13_shape_of_a_global_set_outside(run):
    table = np.arange(6, dtype="f").reshape(2, 3)

    def forward(self, x):
        return self.l2(F.relu(self.l1(x))) * float(table.shape[0]) + F.sum(F.sum(table, axis=0)[0])

    def each(model, i):
        if i == 3:
            table.shape = (3, 2)

    trained_arrays(run, forward, each)


def p_13_shape_of_an_attribute_set_outside(run):
    def forward(self, x):
        return self.l2(F.relu(self.l1(x))) + F.sum(self.table, axis=0)[0]

    def each(model, i):
        if i == 3:
            model.table.shape = (3, 2)

    trained_arrays(run, forward, each, table=np.arange(6, dtype="f").reshape(2, 3))


def p_13_shape_in_a_list_set_outside(run):
    tables = [np.arange(6, dtype="f").reshape(2, 3)]

    def forward(self, x):
        return self.l2(F.relu(self.l1(x))) + F.sum(F.sum(self.tables[0], axis=0)[0])

    def each(model, i):
        if i == 3:
            tables[0].shape = (3, 2)

    trained_arrays(run, forward, each, tables=tables)


def p_13_shape_of_a_parameter_set_outside(run):
    def forward(self, x):
        return self.l2(F.relu(self.l1(x))) + F.sum(self.p, axis=0)[0]

    def each(model, i):
        if i == 3:
            model.p.array.shape = (3, 2)

    trained_arrays(run, forward, each, p=chainer.Parameter(np.arange(6, dtype="f").reshape(2, 3)))


def p_13_shape_of_a_class_array_set_outside(run):
    cfg = fresh(table=np.arange(6, dtype="f").reshape(2, 3))

    def forward(self, x):
        return self.l2(F.relu(self.l1(x))) + F.sum(F.sum(cfg.table, axis=0)[0])

    def each(model, i):
        if i == 3:
            cfg.table.shape = (3, 2)

    trained_arrays(run, forward, each)


def trained_arrays(run, forward, each=lambda model, i: None, **things):
    """Forward only, on arrays."""
    cls = type("Model", (Net,), {"forward": forward, "__module__": __name__})
    model = run.static(cls(**things))
    for i in range(N):
        each(model, i)
        run.see("output", model(run.array(4, 3)))
