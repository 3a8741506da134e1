"""Loops that train, run define-by-run and static; all that a user can see is compared each step."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator

import sdbr

import chainer
import numpy as np

from tests.harness.comparison import assert_near, copy_of
from tests.tolerances import SUMS

STEPS = 10


class Loop:
    """What a loop gets: decorators that are sdbr's or do nothing, and numbers.

    Parameters
    ----------
    is_static : bool
    """

    def __init__(self, is_static: bool):
        self.is_static = is_static
        self.rng = np.random.RandomState(1)
        self.models: list[chainer.Link] = []
        self.statics: list = []
        self.optimizers: list[chainer.GradientMethod] = []

    def static(self, target, **options):
        """A static link or function, all of whose links are looked at."""
        if self.is_static:
            target = sdbr.static_graph(target, on_dynamic="raise", **options)
            self.statics.append(target)
        if isinstance(target, chainer.Link):
            self.models.append(target)
        return target

    def plain(self, link):
        """A link that is not static, and looked at as well."""
        self.models.append(link)
        return link

    def optimizer(self, optimizer, target):
        """A static optimizer, set up."""
        if self.is_static:
            optimizer = sdbr.static_optimizer(optimizer)
        self.optimizers.append(optimizer)
        return optimizer.setup(target)

    def array(self, *shape):
        return self.rng.randn(*shape).astype("f")

    def labels(self, n, classes):
        return self.rng.randint(0, classes, n).astype("i")

    def counts(self) -> dict[str, int]:
        """Sums of the statistics of all that is static."""
        sums: dict[str, int] = {}
        for thing in self.statics:
            for name, n in thing.schedule_manager.statistics.to_dict().items():
                sums[name] = sums.get(name, 0) + n
        return sums

    def look(self) -> dict:
        """All that a user can see of models and optimizers, copied."""
        seen: dict = {}
        for i, model in enumerate(self.models):
            for path, link in model.namedlinks():
                for name, thing in sorted(link.__dict__.items()):
                    if isinstance(thing, chainer.Variable):
                        seen.update(_of_variable(f"{i}{path}/{name}", thing))
                    elif isinstance(thing, np.ndarray):
                        seen[f"{i}{path}/{name}"] = copy_of(thing)
            seen[f"{i} shared"] = _shared([p.grad for p in model.params() if p._grad_valid])
        for i, optimizer in enumerate(self.optimizers):
            seen[f"optimizer {i}"] = optimizer.t, optimizer._loss_scale
            for path, p in sorted(optimizer.target.namedparams()):
                rule = p.update_rule
                seen[f"optimizer {i} {path}"] = rule.t
                for name, thing in sorted((rule.state or {}).items()):
                    seen[f"optimizer {i} {path} {name}"] = copy_of(thing)
        state = repr(np.random.get_state()[1:])
        seen["random"] = hashlib.sha1(state.encode()).hexdigest()
        return seen


def _of_variable(name: str, x: chainer.Variable) -> dict:
    """Array and gradient, and the Variable of the gradient: one that is not there yet is made when
    somebody asks for it, which would be no look.
    """
    seen = {name: copy_of(x.array), f"{name} scale": x._loss_scale}
    seen[f"{name} valid"] = x._grad_valid
    if not x._grad_valid:
        return seen
    g, holder = x.grad, x._grad_var
    seen[f"{name} gradient"] = copy_of(g)
    if holder is not None:
        held = g is holder.array and holder.creator is None and holder.requires_grad
        seen[f"{name} holder"] = type(holder).__name__, held
    elif g is not None:
        seen[f"{name} holder"] = chainer.Variable.__name__, x._grad is g
    if g is not None:
        seen[f"{name} flags"] = g.flags.writeable, g.flags.c_contiguous
    return seen


def _shared(gradients: list) -> list:
    """Which gradients lie on one memory."""
    arrays = [g for g in gradients if g is not None]
    return [
        (i, k)
        for i, a in enumerate(arrays)
        for k, b in enumerate(arrays[:i])
        if np.may_share_memory(a, b)
    ]


def _compared(got: dict, want: dict, where: str) -> None:
    assert list(got) == list(want), where
    for name, thing in want.items():
        if isinstance(thing, np.ndarray) or thing is None:
            assert_near(got[name], thing, SUMS, f"{where}: {name}")
        else:
            assert got[name] == thing, f"{where}: {name}"


def run(loop: Callable[[Loop], Iterator[dict]], is_static: bool, steps: int) -> tuple[list, Loop]:
    """What is seen after each step of a loop, and the loop."""
    np.random.seed(0)
    given = Loop(is_static)
    records = []
    with warnings.catch_warnings(), chainer.using_config("sdbr_audit", "off"):
        warnings.simplefilter("error", sdbr.SdbrWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        iterator = loop(given)
        for _ in range(steps):
            more = next(iterator)
            assert not chainer.config._local.__dict__.keys() & {"enable_backprop"}
            records.append({**{k: copied(x) for k, x in more.items()}, **given.look()})
        iterator.close()
    return records, given


def copied(thing):
    """A comparable copy: of the array of a Variable, with its gradient."""
    if isinstance(thing, chainer.Variable):
        return copy_of(thing.array)
    return copy_of(thing) if isinstance(thing, np.ndarray) else thing


def compare(loop: Callable[[Loop], Iterator[dict]], steps: int = STEPS) -> dict[str, int]:
    """A loop sees the same static as define-by-run; how its static calls were served."""
    want, _ = run(loop, False, steps)
    got, given = run(loop, True, steps)
    for i, (g, w) in enumerate(zip(got, want, strict=True)):
        _compared(g, w, f"step {i}")
    return given.counts()
