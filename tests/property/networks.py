"""From drawn numbers to the source of a network, and to a script that can be pasted."""

from __future__ import annotations

import inspect
import pprint
import textwrap

import sdbr

import chainer
import numpy as np

from . import runner
from .operations import all_templates, flat, is_statement, quiet

#: Shapes of one row of the input.
TAILS = [(4,), (2, 4), (2, 4, 4)]
LARGEST = 1e3  # results beyond this are left out: they only feed infinities

HEAD = """\
class Inner(chainer.Chain):
    def __init__(self):
        super().__init__()
        with self.init_scope():
            self.l = L.Linear(4, 4)

    def forward(self, x):
        return F.tanh(self.l(x)) + x


class Part(chainer.Chain):
    def __init__(self, **links):
        super().__init__()
        with self.init_scope():
            for name, link in links.items():
                setattr(self, name, link)


class Net(chainer.Chain):
    def __init__(self, tail, tied=False):
        super().__init__()
        with self.init_scope():
            self.first = Part(a=L.Linear(4, 4), inner=Inner(), lstm=L.LSTM(4, 4))
            self.second = Part(
                b=L.Linear(4, 4),
                tied=L.Linear(4, 4),
                norm=L.BatchNormalization(tail[0]),
                scale=L.Scale(-1, (4,), bias_term=True),
                conv=L.Convolution2D(2, 2, 3, pad=1),
                embed=L.EmbedID(3, 4),
            )
            if tied:
                self.second.tied.W = self.first.a.W  # one parameter in two links
            self.p = chainer.Parameter(np.random.randn(4).astype(chainer.config.dtype))
        self.state, self.kept, self.alpha, self.ratio = None, None, 0.5, 0.25

    def __getattr__(self, name):
        # Short names in forward; two parts for two optimizers.
        for part in ("first", "second"):
            if part in self.__dict__ and name in self.__dict__[part]._children:
                return self.__dict__[part][name]
        raise AttributeError(name)

    def forward(self, x, t, loss=False):
"""

TAIL = """
if loss:
    return sum(F.mean(F.tanh(y)) for y in results if y.dtype.kind == 'f')
return results
"""


def namespace() -> dict:
    """What the source of a network needs."""
    return {"chainer": chainer, "np": np, "F": chainer.functions, "L": chainer.links}


def base_class() -> type:
    """The network without a forward."""
    names = namespace()
    exec(HEAD + "        pass\n", names)
    return names["Net"]


class Body:
    """The statements of a forward: drawn ones that run on two batch sizes are kept.

    Parameters
    ----------
    drawn : list of (int, tuple of int, int)
        Index of a template, which of the latest results its operands are, an axis.
    tail : tuple of int
        Shape of one row.
    dtype : str
    learns : bool
        Whether a parameter takes part from the first statement on.
    outputs : list of int
        What is returned besides the last result.
    """

    def __init__(self, drawn, tail, dtype, learns=False, outputs=()):
        self.outputs = outputs
        self.templates = all_templates()
        start = "chainer.as_variable(x) + 0.3 * self.p" if learns else "chainer.as_variable(x)"
        self.lines: list[str] = [f"x = {start}"]
        self.used: list[str] = []
        self.names = ["x"]
        self.results: list[str] = []
        self.scopes = [self.scope(n, tail, dtype) for n in (2, 3)]
        for index, picks, axis in drawn:
            self.add(self.templates[index], picks, axis)
        if not self.results:
            self.add("F.tanh({a})", (0, 0, 0), 0)

    @staticmethod
    def scope(n, tail, dtype) -> dict:
        """Names that a statement may use, for a batch of `n` rows."""
        rng = np.random.RandomState(n)
        with chainer.using_config("dtype", np.dtype(dtype)):
            net = base_class()(tail)
        return {
            **namespace(),
            "self": net,
            "x": chainer.Variable(rng.uniform(-1, 1, (n, *tail)).astype(dtype)),
            "t": rng.randint(0, 3, n).astype("i"),
        }

    def add(self, template: str, picks: tuple, axis: int) -> None:
        """Add a statement with the first operands, from those picked on, that it takes."""
        for shift in range(min(len(self.names), 4)):
            # The latest results first, so that networks grow deep as well as wide.
            operands = {
                name: self.names[-1 - (pick + shift) % len(self.names)]
                for name, pick in zip("abc", picks, strict=True)
            }
            source = template.format(**operands, t="t", axis=axis)
            if self.try_out(source, template):
                self.used.append(template)
                return

    def try_out(self, source: str, template: str) -> bool:
        """Run a statement for both batch sizes; keep it when it gives finite numbers."""
        try:
            with quiet():
                if is_statement(template):
                    for scope in self.scopes:
                        exec(source, scope)
                    self.lines.append(source)
                    return True
                made = [flat(eval(source, scope)) for scope in self.scopes]
        except Exception:
            return False
        if not 0 < len(made[0]) == len(made[1]) <= 4:
            return False
        for y in (*made[0], *made[1]):
            if y.size == 0 or y.size > 2000 or not np.abs(y.array).max() < LARGEST:
                return False
        self.keep(source, made)
        return True

    def keep(self, source: str, made: list) -> None:
        names = [f"h{len(self.results) + i}" for i in range(len(made[0]))]
        several = "," if source.startswith(("F.separate", "F.split", "F.broadcast(")) else ""
        self.lines.append(f"{', '.join(names)}{several} = {source}")
        for name, small, large in zip(names, *made, strict=True):
            self.results.append(name)
            if small.dtype == self.scopes[0]["x"].dtype:
                self.names.append(name)
            for scope, y in zip(self.scopes, (small, large), strict=True):
                scope[name] = y

    def source(self) -> str:
        """The classes of the network."""
        chosen = [self.results[-1]]
        for i in self.outputs:
            name = self.results[i % len(self.results)]
            if name not in chosen:
                chosen.append(name)
        lines = [*self.lines, f"results = {', '.join(chosen)},", TAIL]
        return HEAD + textwrap.indent("\n".join(lines), " " * 8)


def made_from(source: str, settings: dict):
    """A function that makes the network."""
    names = namespace()
    exec(compile(source, "<network>", "exec"), names)

    def make(static):
        net = names["Net"](settings["tail"], settings["tied"])
        if static:
            sdbr.static_graph(net.first.inner)  # traced into the outer one
        return net

    return make


def compare(source, events, settings):
    """`runner.compare` for a network given as source."""
    make = made_from(source, settings)
    return runner.compare(lambda: make(False), lambda: make(True), events, settings)


def script(source, events, settings) -> str:
    """The case as a script of its own."""
    body = inspect.getsource(runner)
    body = body[body.index("import contextlib") :].replace(
        "from chainer import functions as F", "from chainer import functions as F, links as L"
    )
    return f"""{body}

{source}

EVENTS = {pprint.pformat(events)}
SETTINGS = {pprint.pformat(settings)}


def make(static):
    net = Net(SETTINGS['tail'], SETTINGS['tied'])
    if static:
        sdbr.static_graph(net.first.inner)
    return net


if __name__ == "__main__":
    compare(lambda: make(False), lambda: make(True), EVENTS, SETTINGS)
    print("static equals define-by-run")
"""
