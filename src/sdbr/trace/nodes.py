"""Function nodes before and after their forward."""

from __future__ import annotations

import contextlib
import inspect
import weakref

from sdbr.base.settings import OUTSIDE_KEY
from sdbr.compat.splitting import count_backwards
from sdbr.trace._node_copies import inner_function

import chainer
from chainer.functions.util.forget import Forget


def config_entries() -> dict:
    """All entries of ``chainer.config`` that are in the cache key, as this thread sees them."""
    config = dict(chainer.global_config.__dict__)
    config.update(chainer.config._local.__dict__)
    for name in OUTSIDE_KEY:
        config.pop(name, None)
    return config


def entry_of_config(name: str):
    """An entry of ``chainer.config`` as this thread sees it, without Chainer's way to it."""
    own = chainer.config._local.__dict__
    return own[name] if name in own else getattr(chainer.global_config, name)


def config_changes(before: dict) -> dict:
    """Entries that a ``using_config`` inside the call has changed, except enable_backprop."""
    now = config_entries()
    return {
        k: thing
        for k, thing in now.items()
        if k != "enable_backprop" and (k not in before or thing is not before[k])
    }


def configured(entries: dict):
    """A context with these entries of ``chainer.config``."""
    if len(entries) == 1:  # nearly always, and in every run of a Python op
        ((name, thing),) = entries.items()
        return chainer.using_config(name, thing)
    return _configured(entries)


@contextlib.contextmanager
def _configured(entries: dict):
    with contextlib.ExitStack() as stack:
        for name, thing in entries.items():
            stack.enter_context(chainer.using_config(name, thing))
        yield


#: Names that a backward uses which writes gradients itself.
_WRITERS = frozenset({
    "_backprop_to_all", "_grad", "_grad_var", "_set_grad_var_without_check", "addgrad", "addgrads",
    "backward", "cleargrad", "cleargrads", "grad", "grad_var", "setattr", "set_grad", "zerograd",
    "zerograds",
})  # fmt: skip


def has_own_backward(function) -> bool:
    """Whether the backward of a node is code of a user, or runs some."""
    kind = type(inner_function(function) or function)
    if kind.__module__[:8] == "chainer." and not issubclass(kind, Forget):
        return False
    package = kind.__module__.partition(".")[0]
    return package not in ("chainer", "sdbr") or issubclass(kind, Forget)


def _is_chainers(function) -> bool:
    """Whether a function is Chainer's own; those made by ``exec`` may be of no module."""
    return (getattr(function, "__module__", "chainer") or "").partition(".")[0] == "chainer"


def may_write_gradients(function) -> bool:
    """Whether code that the backward of a node reaches by name could write gradients.

    What it reaches in other ways is seen when it runs (`watch_backward`).
    """
    inner = inner_function(function) or function
    kind = type(inner)
    if issubclass(kind, Forget):
        return True
    todo = [
        getattr(kind, name)
        for name in ("backward", "backward_accumulate", "backward_cpu", "backward_gpu")
        if not _is_chainers(getattr(kind, name, None))
    ]
    seen = set()
    while todo:
        found = inspect.unwrap(todo.pop())
        found = getattr(found, "__func__", found)
        code = getattr(found, "__code__", None)
        if code is None or code in seen or _is_chainers(found):
            continue
        seen.add(code)
        codes = [code]
        while codes:
            one = codes.pop()
            codes += [c for c in one.co_consts if isinstance(c, type(one))]
            if not _WRITERS.isdisjoint(one.co_names):
                return True
            for name in one.co_names:
                todo += [
                    thing
                    for thing in (found.__globals__.get(name), getattr(kind, name, None))
                    if inspect.isroutine(thing) and hasattr(thing, "__module__")
                ]
        for cell in found.__closure__ or ():
            with contextlib.suppress(ValueError):
                if inspect.isroutine(cell.cell_contents):
                    todo.append(cell.cell_contents)
    return False


def watch_backward(function, node) -> None:
    """Note for which inputs the backward of this very node, when it runs, gives no gradient.

    None is not zero: an optimizer leaves a parameter without gradient alone. Of a backward of
    users is noted, too, whether it runs a backward in turn.
    """
    this = weakref.ref(function)
    silent = node.silent
    original = type(function).backward

    def backward(target_input_indexes, grad_outputs):
        before = count_backwards()
        gxs = original(this(), target_input_indexes, grad_outputs)
        if node.own and count_backwards() != before:
            node.accumulates = True
        given = tuple(g is not None for g in grad_outputs)
        n = len(gxs)
        if n in (len(node.inputs), len(target_input_indexes)):
            for k, i in enumerate(target_input_indexes):
                gx = gxs[i if n == len(node.inputs) else k]
                if gx is None or gx.raw_array is None:
                    silent.setdefault(given, set()).add(i)
        return gxs

    backward.watches = node
    function.backward = backward


#: What a function node does when it is applied and differentiated.
METHODS = ("apply", "forward", "forward_cpu", "backward", "backward_cpu", "backward_accumulate")


def methods_of(function_class: type) -> list:
    """Those of `METHODS` that a class of function nodes has, inherited ones included."""
    found = (getattr(function_class, name, None) for name in METHODS)
    return [method for method in found if method is not None]
