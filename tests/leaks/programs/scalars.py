"""Hyperparameters of functions that are NumPy scalars, from places that change."""

import math

import chainer
import chainer.functions as F
import numpy as np

FUNCTIONS = {
    "elu": F.elu,
    "clip": lambda x, a: F.clip(x, -a, a),
    "power": lambda x, a: F.exp(x) ** a,
    "layer_norm": lambda x, a: F.layer_normalization(x, np.ones(4, "f"), np.zeros(4, "f"), a),
    "triplet": lambda x, a: F.triplet(x, x * 2, x * 3, a),
    "filled": lambda x, a: F.maximum(x, np.full((3, 4), a, "f")),
}
SETTINGS = {"alpha": np.float32(1)}


class Schedule:
    alpha = np.float32(1)

    def __init__(self):
        self.values = np.linspace(0.5, 1.5, 9).astype("f")
        self.i = 0

    def now(self):
        return self.values[self.i]

    @property
    def warm(self):
        return np.float32(math.exp(0.05 * self.i))


def _loop(run, function, change, n=7):
    static = run.static(function)
    for i in range(n):
        x = chainer.Variable(run.array(3, 4))
        y = static(x)
        F.sum(y * y).backward()
        run.see("results", y, x.grad)
        change(i)


def _of_object(f):
    def program(run):
        schedule = Schedule()

        def change(i):
            schedule.i = i

        _loop(run, lambda x: f(x, schedule.now()), change)

    return program


def _of_property(f):
    def program(run):
        schedule = Schedule()

        def change(i):
            schedule.i = i

        _loop(run, lambda x: f(x, schedule.warm), change)

    return program


def _of_class(f):
    def program(run):
        def change(i):
            Schedule.alpha = np.float32(1 + 0.1 * i)

        _loop(run, lambda x: f(x, Schedule.alpha), change)

    return program


def _of_global(f):
    def program(run):
        def change(i):
            SETTINGS["alpha"] = np.float32(1 + 0.1 * i)

        _loop(run, lambda x: f(x, SETTINGS["alpha"]), change)

    return program


def _of_mean(f):
    def program(run):
        schedule = Schedule()

        def change(i):
            schedule.values += np.float32(0.1)

        _loop(run, lambda x: f(x, schedule.values[:4].mean()), change)

    return program


def _of_bytes(f):
    def program(run):
        memory = bytearray(np.float32(1).tobytes())

        def change(i):
            memory[:] = np.float32(1 + 0.1 * i).tobytes()

        _loop(run, lambda x: f(x, np.frombuffer(memory, "f")[0]), change)

    return program


for _name, _f in FUNCTIONS.items():
    globals()[f"p_10_{_name}_object"] = _of_object(_f)
    globals()[f"p_10_{_name}_property"] = _of_property(_f)
    globals()[f"p_10_{_name}_class"] = _of_class(_f)
    globals()[f"p_10_{_name}_global"] = _of_global(_f)
    globals()[f"p_10_{_name}_mean"] = _of_mean(_f)
    globals()[f"p_10_{_name}_bytes"] = _of_bytes(_f)
