"""Row 8: a module that is loaded again, its functions and classes changed in place, is seen."""

from __future__ import annotations

import gc
import importlib
import sys
import types

import sdbr

import numpy as np
import pytest

X = np.arange(6, dtype="f").reshape(2, 3)
HEAD = """
import dataclasses
import chainer
import chainer.functions as F
import chainer.links as L
import sdbr

V = chainer.Variable
"""
#: name -> code with a number in it, and what of it a static thing is made of
MODULES = {
    "function": ("def f(x): return F.sum(V(x) * {})", "f"),
    "helper": ("def h(x): return x * {}\ndef f(x): return F.sum(h(V(x)))", "f"),
    "helper without a name": ("h = lambda x: x * {}\ndef f(x): return F.sum(h(V(x)))", "f"),
    "default": ("def h(x, n={}): return x * n\ndef f(x): return F.sum(h(V(x)))", "f"),
    "keyword": ("def h(x, *, n={}): return x * n\ndef f(x): return F.sum(h(V(x)))", "f"),
    "constant": ("N = {}\ndef f(x): return F.sum(V(x) * N)", "f"),
    "closure": (
        "def make(n):\n    def inner(x): return x * n\n    return inner\n"
        "h = make({})\ndef f(x): return F.sum(h(V(x)))", "f",
    ),
    "method": ("class M(chainer.Chain):\n    def forward(self, x): return F.sum(V(x) * {})", "M"),
    "decorated method": (
        "class M(chainer.Chain):\n    @sdbr.static_graph\n"
        "    def forward(self, x): return F.sum(V(x) * {})", "M",
    ),
    "method of a base": (
        "class B(chainer.Chain):\n    def h(self, x): return x * {}\n"
        "class M(B):\n    def forward(self, x): return F.sum(self.h(V(x)))", "M",
    ),
    "child": (
        "class H(chainer.Link):\n    def forward(self, x): return x * {}\n"
        "class M(chainer.Chain):\n    def __init__(self):\n        super().__init__()\n"
        "        with self.init_scope():\n            self.h = H()\n"
        "    def forward(self, x): return F.sum(self.h(V(x)))", "M",
    ),
    "property": (
        "class M(chainer.Chain):\n    @property\n    def s(self): return {}\n"
        "    def forward(self, x): return F.sum(V(x) * self.s)", "M",
    ),
    "static method": (
        "class M(chainer.Chain):\n    @staticmethod\n    def s(x): return x * {}\n"
        "    def forward(self, x): return F.sum(self.s(V(x)))", "M",
    ),
    "class method": (
        "class M(chainer.Chain):\n    @classmethod\n    def s(cls, x): return x * {}\n"
        "    def forward(self, x): return F.sum(self.s(V(x)))", "M",
    ),
    "attribute of a class": (
        "class M(chainer.Chain):\n    n = {}\n"
        "    def forward(self, x): return F.sum(V(x) * self.n)", "M",
    ),
    "plain object": (
        "class O:\n    def go(self, x): return x * {}\n"
        "class M(chainer.Chain):\n    def __init__(self):\n        super().__init__()\n"
        "        self.o = O()\n    def forward(self, x): return F.sum(self.o.go(V(x)))", "M",
    ),
    "settings": (
        "@dataclasses.dataclass\nclass C:\n    n: int = {}\n"
        "c = C()\ndef f(x): return F.sum(V(x) * c.n)", "f",
    ),
    "function node": (
        "class N(chainer.FunctionNode):\n"
        "    def forward(self, inputs): return (inputs[0] * {},)\n"
        "def f(x): return F.sum(N().apply((V(x),))[0])", "f",
    ),
}  # fmt: skip


def changed_in_place(old, new) -> bool:
    """Give an old function or class the contents of the new one, as notebooks do on a reload."""
    if isinstance(old, type) and isinstance(new, type):
        for name in [name for name in vars(old) if not hasattr(new, name)]:
            delattr(old, name)
        for name, thing in list(vars(new).items()):
            before = vars(old).get(name)
            if name not in ("__dict__", "__weakref__") and not changed_in_place(before, thing):
                setattr(old, name, thing)
        for instance in [x for x in gc.get_referrers(old) if type(x) is old]:
            object.__setattr__(instance, "__class__", new)
        return True
    if isinstance(old, types.FunctionType) and isinstance(new, types.FunctionType):
        if len(old.__code__.co_freevars) == len(new.__code__.co_freevars):
            old.__code__, old.__defaults__ = new.__code__, new.__defaults__
        return True
    return False


@pytest.mark.parametrize("name", MODULES)
def test_changed_in_place(name, tmp_path, monkeypatch):
    text, thing = MODULES[name]
    path = tmp_path / "reloaded_by_a_test.py"
    path.write_text(HEAD + text.format(2))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    module = importlib.import_module(path.stem)
    try:
        target = getattr(module, thing)
        static = target() if isinstance(target, type) else target
        static = static if "static_graph" in text else sdbr.static_graph(static)
        before = [float(static(X).array) for _ in range(4)]
        old = dict(vars(module))
        path.write_text(HEAD + text.format(3) + "\n")
        importlib.invalidate_caches()
        importlib.reload(module)
        for key, new in list(vars(module).items()):
            if key in old and getattr(new, "__module__", None) == path.stem:
                changed_in_place(old[key], new)
        after = [float(static(X).array) for _ in range(4)]
    finally:
        del sys.modules[path.stem]
    assert (before, after) == (4 * [30.0], 4 * [45.0])
    assert static.schedule_manager.statistics.replays >= 3
