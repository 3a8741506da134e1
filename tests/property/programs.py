"""From a seed to the source of a program that leaks, draws, stores or mutates.

A program is a module with one function ``p_program(run)``, as those of `tests.leaks.programs`.
"""

from __future__ import annotations

import random
import textwrap

from .hazards import DYNAMIC, FAMILIES, WEIGHTS, Hazard

HEAD = """\
import collections, copy, functools, hashlib, json, math, operator
import pickle, random, statistics, struct, types

import chainer
import chainer.functions as F
import chainer.links as L
import numpy as np

DTYPE = {dtype!r}
UNEVEN = np.array([0.3, -0.7, 1.1, 0.4], DTYPE)


class Box:
    def __init__(self, **things):
        self.__dict__.update(things)


def digest(state):
    return hashlib.sha1(repr(state).encode()).hexdigest()


def generators():
    return digest(np.random.get_state()[1:]), digest(random.getstate())


def rate(optimizer, value):
    name = "alpha" if hasattr(optimizer, "alpha") else "lr"
    setattr(optimizer, name, value)
"""

NET = """\
class Net(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l1 = L.Linear(4, 4)
            self.l2 = L.Linear(4, 4)
        self.alpha = 0.5
"""

#: Functions from a Variable to one of the same shape.
OPS = [
    "F.tanh({h})",
    "F.relu({h})",
    "F.sigmoid({h}) * {h}",
    "self.l2({h})",
    "F.tanh(self.l2({h})) + {h}",
    "F.softmax({h})",
    "{h} * self.alpha",
    "{h} - F.broadcast_to(F.mean(F.tanh({h}), axis=0), {h}.shape)",
    "F.concat([{h}[:, 2:], {h}[:, :2]])",
    "F.normalize({h})",
    "F.leaky_relu({h}) + F.tanh({h}) ** 2",
    "F.reshape(F.transpose(F.reshape({h}, (-1, 2, 2)), (0, 2, 1)), {h}.shape)",
    "F.matmul({h}, self.l1.W)",
    "{h} * (1 - {raw}.mean())",
    "{h} + ({raw} > 0)",
]
#: Uneven, so that no gradient is zero but for rounding.
TOTALS = [
    "F.sum(F.tanh({y}) * UNEVEN)",
    "F.mean({y} * {y} * UNEVEN)",
    "F.sum({y}[0] * UNEVEN)",
    "F.sum({y} * UNEVEN) + F.sum({y}[-1] ** 2)",
]
ITERATIONS = 8


class Program:
    """One program, drawn from a seed.

    Parameters
    ----------
    seed : int
    hazards : list of Hazard, optional
        What it does; without it, one to three are drawn.

    Attributes
    ----------
    source : str
    """

    def __init__(self, seed: int, hazards: list[Hazard] | None = None):
        self.rng = random.Random(seed)
        self.seed = seed
        self.form = self.rng.choice(["instance", "instance", "method", "function"])
        self.mode = self.rng.choice(["single", "single", "several", "dict", "step", "step"])
        self.dtype = self.rng.choice("fddd")
        self.wraps = self.rng.random() < 0.4
        self.optimizer = self.rng.choice(["SGD(0.01)", "MomentumSGD(0.01)", "AdaGrad(0.01)"])
        self.hazards = self.drawn() if hazards is None else hazards
        self.source = self.text()

    def drawn(self) -> list[Hazard]:
        """One to three hazards, of which most can be replayed."""
        hazards: list[Hazard] = []
        count = self.rng.choice([1, 1, 1, 2, 2, 3])
        while len(hazards) < count:
            (family,) = self.rng.choices(list(WEIGHTS), list(WEIGHTS.values()))
            hazard = self.rng.choice(FAMILIES[family])
            if hazard.dynamic and self.rng.random() > DYNAMIC:
                continue
            loop = hazard.between + hazard.after
            if not (self.mode == "step" and ("ys" in loop or "call(x)" in loop)):
                hazards.append(hazard)
        return hazards

    def filled(self, part: str, indent: int) -> str:
        """What the hazards have for a place in the program."""
        texts = [getattr(h, part).format(k=k) for k, h in enumerate(self.hazards)]
        return "".join(textwrap.indent(text + "\n", " " * indent) for text in texts if text)

    def text(self) -> str:
        """The source."""
        names = ", ".join(h.name for h in self.hazards)
        parts = [f'"""Program {self.seed}: {names}."""\n\n', HEAD.format(dtype=self.dtype)]
        parts += [self.filled("head", 0), "\n\ndef make(run):\n", self.filled("closure", 4)]
        parts += [textwrap.indent(NET, "    "), self.filled("init", 12)]
        inner = self.forward()
        if self.form == "function":
            parts.append("\n    self = net = Net()\n\n    @run.static\n")
            parts += [textwrap.indent(inner.replace("(self, x", "(x"), "    ")]
            parts.append("\n    return net, forward\n")
        else:
            decorated = "        @run.static\n" if self.form == "method" else ""
            parts += ["\n", decorated, textwrap.indent(inner, " " * 8), "\n    net = Net()\n"]
            called = "run.static(net)" if self.form == "instance" else "net"
            parts.append(f"    return net, {called}\n")
        return "".join([*parts, "\n\n", self.main()])

    def forward(self) -> str:
        """The decorated function."""
        raw = "x.array" if self.wraps else "x"
        lines, known = ["h = self.l1(x)"], ["h"]

        def add(template: str, **others):
            h, v = self.rng.choice(known[-2:]), f"h{len(known)}"
            lines.extend(template.format(h=h, v=v, raw=raw, **others).splitlines())
            if "{v}" in template:
                known.append(v)

        for k, hazard in enumerate(self.hazards):
            for _ in range(self.rng.choice([0, 1, 1, 2])):
                add("{v} = " + self.rng.choice(OPS))
            add(hazard.body, k=k)
        for _ in range(self.rng.choice([1, 2])):
            add("{v} = " + self.rng.choice(OPS))
        y, z = known[-1], self.rng.choice(known)
        if y == z:
            lines.append(f"{(z := 'z')} = F.sin({y})")
        lines.append(
            {
                "single": f"return {y}",
                "several": f"return {y}, {z}",
                "dict": f"return {{'y': {y}, 'z': {z}}}",
                "step": f"return F.softmax_cross_entropy(F.tanh({y}), t)",
            }[self.mode]
        )
        t = ", t" if self.mode == "step" else ""
        outer = [x for line in lines if (x := line.strip()).startswith(("global ", "nonlocal "))]
        lines = [*outer, *(line for line in lines if line.strip() not in outer)]
        return f"def forward(self, x{t}):\n" + textwrap.indent("\n".join(lines) + "\n", "    ")

    def main(self) -> str:
        """The function that runs it."""
        pick = self.rng.choice
        sizes = pick([[6] * ITERATIONS, [6] * ITERATIONS, [6, 6, 6, 3, 6, 3, 6, 6]])
        equal = pick([True, False, False])
        lines = [
            "chainer.config.dtype = np.dtype(DTYPE)",
            "net, call = make(run)",
            f"optimizer = run.optimizer(chainer.optimizers.{self.optimizer}).setup(net)",
            f"batches = [run.array(n, 4, dtype=DTYPE) for n in {sizes}]",
            *(["batches[1] = batches[0].copy()"] if equal else []),
            "keep_grads = False",
            f"for i in range({ITERATIONS}):",
            "    data = batches[i]",
            f"    x = {'chainer.Variable(data)' if self.wraps else 'data'}",
            self.filled("before", 4).rstrip("\n"),
            *(f"    {line}" for line in self.iteration()),
            "    run.see('generators', *generators())",
            *(
                f"    run.see('hazard {k}', {h.see.format(k=k)})"
                for k, h in enumerate(self.hazards)
                if h.see
            ),
            self.filled("after", 4).rstrip("\n"),
        ]
        body = textwrap.indent("\n".join(line for line in lines if line), "        ")
        return (
            "def p_program(run):\n"
            "    before = dict(vars(chainer.config._local))\n"
            f"    try:\n{body}\n    finally:\n"
            "        for name in set(vars(chainer.config._local)) - set(before):\n"
            "            delattr(chainer.config, name)\n"
            "        for name, value in before.items():\n"
            "            setattr(chainer.config, name, value)\n"
        )

    def iteration(self) -> list[str]:
        """One iteration."""
        pick = self.rng.choice
        between = self.filled("between", 0).splitlines()
        lines = []
        t = ", t" if self.mode == "step" else ""
        if self.rng.random() < 0.2:
            lines += [
                "if i == 5:",
                "    with chainer.using_config('train', False), chainer.no_backprop_mode():",
                f"        run.see('test', call(x{t}))",
            ]
        if self.mode == "step":
            lines.insert(0, "t = run.labels(len(data), 4)")
            if not between:
                lines.append("run.observe(net, optimizer.update, call, x, t)")
                return [*lines, "run.see('net', net)"]
            lines += ["loss = run.observe(net, call, x, t)", "ys = [loss]"]
        else:
            results = {"single": "[result]", "several": "list(result)"}
            lines.append("result = run.observe(net, call, x)")
            lines.append(f"ys = {results.get(self.mode, 'list(result.values())')}")
        lines += ["run.see('results', ys)", "if not keep_grads:", "    net.cleargrads()", *between]
        total = pick(TOTALS) if self.mode != "step" else "{y}"
        backward = pick(["together", "together", "separate", "first", "retained", "grad"])
        if backward == "separate":
            lines += ["for y in ys:", f"    ({total.format(y='y')}).backward()"]
        elif backward == "first":
            lines.append(f"({total.format(y='ys[0]')}).backward()")
        elif backward == "grad" and self.wraps:
            lines.append(
                f"run.see('grad', chainer.grad([{total.format(y='ys[-1]')}], [x, net.l1.W]))"
            )
        else:
            lines.append(f"loss = sum({total.format(y='y')} for y in ys)")
            lines.append(f"loss.backward({'retain_grad=True' if backward == 'retained' else ''})")
            lines.append("run.see('gradients of results', [y.grad for y in ys])")
        if self.wraps:
            lines.append("run.see('gradient of x', x.grad)")
        if pick([True, True, False]) and backward != "grad":
            lines.append("optimizer.update()")
        return [*lines, "run.see('net', net)"]
