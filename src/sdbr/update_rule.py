"""``update_rule``: an optimizer from its arithmetic, native like Chainer's."""

from __future__ import annotations

import dataclasses
import dis
import inspect
import keyword
import math
import types
from collections.abc import Callable, Mapping
from typing import Any, Protocol, overload

from sdbr.base.options import names_what_it_takes
from sdbr.optimizers.arithmetic import Arithmetic, emit, record, results_of
from sdbr.optimizers.rows import Declined, RuleRow
from sdbr.optimizers.table import add_row
from sdbr.program.instruction import ControlSlot

import chainer
import numpy as np
from chainer.optimizer import GradientMethod, Hyperparameter, HyperparameterProxy, UpdateRule

#: The step of the optimizer, 1 at the first.
STEP = "t"
_NUMBERS = (bool, int, float)
#: What NumPy has that gives the same for the same; all that `math` has does.
_PURE = (np.ufunc, float)
_BUILTINS = frozenset({"abs", "float", "int", "max", "min", "pow"})
_TAKEN = frozenset({"parent", "Rule", *dir(Hyperparameter()), *dir(GradientMethod())})


class OptimizerClass(Protocol):
    """A class of optimizers, which has that of their update rules as ``Rule``."""

    Rule: type[UpdateRule]

    def __call__(self, *args: float, **kwargs: float) -> GradientMethod: ...


class Decorator(Protocol):
    """What ``update_rule(name=...)`` gives."""

    def __call__(self, function: Callable[..., Any], /) -> OptimizerClass: ...


@overload
def update_rule(function: Callable[..., Any], *, name: str | None = ...) -> OptimizerClass: ...


@overload
def update_rule(function: None = None, *, name: str | None = ...) -> Decorator: ...


@names_what_it_takes
def update_rule(function: Callable[..., Any] | None = None, *, name: str | None = None) -> Any:
    """Make an optimizer of elementwise arithmetic.

    With :func:`sdbr.static_optimizer` its steps are native, as those of Chainer's optimizers are;
    without, and with the backend ``off``, NumPy or CuPy computes them from the same function.

    Parameters
    ----------
    function : callable, optional
        ``function(param, grad, *states, **hyperparameters)`` gives the new parameter, or a tuple
        of it and of each new state, and changes nothing: how often it is called is not said, and
        arrays are symbols where it is recorded. All are arrays of the shape and dtype of the
        parameter. Arguments without a default are, in order, the parameter, its gradient and the
        states, which begin as zeros; those with one are hyperparameters, which are numbers. One
        that is called ``t`` and has no default is the number of the step, 1 at the first. A
        decorator is returned when it is omitted.
    name : str, optional
        Of the class; that of the function if it is omitted.

    Returns
    -------
    type
        A subclass of ``chainer.GradientMethod`` that takes the hyperparameters; ``Rule`` is the
        class of its update rules, a ``chainer.UpdateRule``.

    Raises
    ------
    TypeError
        If `function` has other arguments than these, or returns something else.
    TraceError
        If it does with arrays what has no native code in a rule; the text says what.

    Examples
    --------
    Lion (Chen et al. 2023, arXiv:2302.06675, algorithm 2)::

        @sdbr.update_rule
        def Lion(param, grad, m, lr=1e-4, beta1=0.9, beta2=0.99, decay=0.0):
            update = np.sign(beta1 * m + (1 - beta1) * grad)
            return param - lr * (update + decay * param), beta2 * m + (1 - beta2) * grad

        optimizer = sdbr.static_optimizer(Lion(lr=3e-4)).setup(model)
    """
    if function is None:
        return lambda found: update_rule(found, name=name)
    if not callable(function):
        raise TypeError(f"function: expected a callable, got {type(function).__name__}")
    if name is None:
        name = getattr(function, "__name__", "<partial>")
        name = name if name.isidentifier() else "UpdateRule"
    elif not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise TypeError(f"name: expected a name for a class, got {name!r}")
    return _optimizer(_Function(function, name))


class _Function:
    """The function of a rule, and what its arguments are; see `RuleRow.function`.

    Its options are ``(i,)`` for `forms[i]`: which arithmetic it is may follow from hyperparameters
    and from the number of the step.

    Attributes
    ----------
    arrays, states : list of str
        Arguments that are arrays; those of them that are states.
    defaults : dict
        Of the hyperparameters.
    takes_step : bool
    forms : list of _Form
    """

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        self.call, self.name = function, name
        self.arrays, self.defaults, self.takes_step = _arguments(function, name)
        self.states = self.arrays[2:]
        self.switches = [i for i, v in enumerate(self.defaults.values()) if type(v) is bool]
        self.is_closed = _is_closed(function)
        self.forms: list[_Form] = []
        self.choose(tuple(self.defaults.values()), 1)

    def record(self, values: tuple, t: int) -> tuple[Arithmetic, list[float]]:
        """What it does with arrays, and the numbers beside them."""
        given = dict(zip(self.defaults, values, strict=True))
        return record(self.step(given, t), len(self.arrays), self.name)

    def step(self, values: Mapping[str, Any], t: int) -> Callable[..., Any]:
        """The function, of arrays alone."""
        given = {k: v.item() if isinstance(v, np.generic) else v for k, v in values.items()}
        given |= {STEP: t} if self.takes_step else {}
        return lambda *arrays: self.call(**dict(zip(self.arrays, arrays, strict=True)), **given)

    # --- what a row of a rule gives ---------------------------------------------------------------
    def choose(self, values: tuple, t: int) -> tuple[int]:
        """The options of step `t`."""
        arithmetic, numbers = self.record(values, t)
        truths = self._truths(values)
        for i, form in enumerate(self.forms):
            if (form.arithmetic, form.truths) == (arithmetic, truths):
                form.is_outdated = False
                return (i,)
        self.forms.append(_Form(arithmetic, truths, len(numbers)))
        return (len(self.forms) - 1,)

    def _truths(self, values: tuple) -> list[bool]:
        return [bool(values[i]) for i in self.switches]

    def holds(self, options: tuple[int], values: tuple) -> bool:
        """Whether the next step is likely one of these options."""
        form = self.forms[options[0]]
        return not form.is_outdated and form.truths == self._truths(values)

    def scalars_of(self, options: tuple[int]) -> tuple[Callable, int]:
        """What gives the numbers of a step, and how many there are."""
        form = self.forms[options[0]]
        return lambda values, t, dtype, extra: self.scalars(form, values, t), form.n_numbers

    def scalars(self, form: _Form, values: tuple, t: int) -> tuple[float, ...]:
        """The numbers of step `t`."""
        asked = None
        if self.is_closed and all(type(x) in _NUMBERS for x in values):
            asked = [*map(repr, values), t if self.takes_step else 0]  # 0.0 is not -0.0
            if form.known is not None and form.known[0] == asked:
                return form.known[1]
        arithmetic, numbers = self.record(values, t)
        if arithmetic != form.arithmetic:
            # Where this is but one step, the plan stays.
            form.is_outdated = self.record(values, t + 1)[0] != form.arithmetic
            raise Declined(f"update rule {self.name} computes something else in this step")
        form.known = asked, tuple(numbers)
        return form.known[1]

    def emit(self, b, rows, at: int, options: tuple[int]) -> None:
        """The ops of a step; its numbers begin at place `at` of the control block."""
        form = self.forms[options[0]]
        names = range(form.n_numbers)
        floats = [ControlSlot(at + i, 0.0, f"{self.name}, number {i}") for i in names]
        emit(b, form.arithmetic, rows, floats)


@dataclasses.dataclass
class _Form:
    """An arithmetic that a function has for some hyperparameters and steps.

    Attributes
    ----------
    arithmetic : Arithmetic
    truths : list of bool
        Of the hyperparameters that are True or False.
    n_numbers : int
    known : tuple or None
        What was asked for last, and the numbers.
    is_outdated : bool
        Whether steps that come are of another one: plans of this one are made anew.
    """

    arithmetic: Arithmetic
    truths: list[bool]
    n_numbers: int
    known: tuple[Any, tuple[float, ...]] | None = None
    is_outdated: bool = False


def _arguments(function, name: str) -> tuple[list[str], dict[str, Any], bool]:
    """Arrays, hyperparameters with their defaults, and whether it takes the step."""
    try:
        given = inspect.signature(function).parameters.values()
    except ValueError:
        raise TypeError(f"update rule {name}: the function does not say what it takes") from None
    defaults = {p.name: p.default for p in given if p.default is not p.empty}
    arrays = [p.name for p in given if p.default is p.empty and p.name != STEP]
    others = [
        str(p) for p in given if p.kind in (p.POSITIONAL_ONLY, p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    others += [str(p) for p in given if p.kind is p.KEYWORD_ONLY and p.name in arrays]
    if others or len(arrays) < 2:
        raise TypeError(
            f"update rule {name}: expected a function of param, grad, states, and hyperparameters "
            f"that have defaults, got {name}({', '.join(map(str, given))})"
        )
    for key, value in defaults.items():
        if key in _TAKEN:
            raise TypeError(f"update rule {name}: {key} is no name for a hyperparameter")
        if type(value) not in _NUMBERS:
            kind = type(value).__name__
            raise TypeError(
                f"update rule {name}: expected a number as default of {key}, got {kind}"
            )
    return arrays, defaults, any(p.name == STEP and p.default is p.empty for p in given)


def _is_closed(function) -> bool:
    """Whether the numbers of a function depend on nothing but its arguments."""
    if type(function) is not types.FunctionType or function.__closure__:
        return False
    left = [function.__code__]
    for code in left:
        left += [x for x in code.co_consts if isinstance(x, types.CodeType)]
        for instruction in dis.get_instructions(code):
            name, operation = instruction.argval, instruction.opname
            if operation == "LOAD_GLOBAL":
                found = function.__globals__.get(name)
                fine = found is np or found is math or (found is None and name in _BUILTINS)
            elif operation in ("LOAD_ATTR", "LOAD_METHOD"):
                fine = isinstance(getattr(np, name, None), _PURE) or hasattr(math, name)
            else:
                fine = "NAME" not in operation and "GLOBAL" not in operation
            if not fine:
                return False
    return True


def _optimizer(function: _Function) -> type[GradientMethod]:
    """The class of the optimizer, and that of its rules."""
    home = {"__module__": getattr(function.call, "__module__", None) or "__main__"}
    defaults = function.defaults
    signature = inspect.Signature(
        [
            inspect.Parameter(k, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=v)
            for k, v in defaults.items()
        ]
    )

    def __init__(self, *args, **kwargs):
        super(cls, self).__init__()
        try:
            given = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{function.name}{signature}: {error}") from None
        given.apply_defaults()
        for key, value in given.arguments.items():
            setattr(self.hyperparam, key, value)

    def create_update_rule(self):
        return self.Rule(self.hyperparam)

    space = {
        **home,
        **{key: HyperparameterProxy(key) for key in defaults},
        "__doc__": getattr(function.call, "__doc__", None),
        "__init__": __init__,
        "__signature__": signature,
        "Rule": _rule(function, home),
        "create_update_rule": create_update_rule,
    }
    cls = type(function.name, (GradientMethod,), space)
    cls.__qualname__ = getattr(function.call, "__qualname__", function.name)
    if function.name != cls.__qualname__.rpartition(".")[2]:
        cls.__qualname__ = function.name
    cls.Rule.__qualname__ = f"{cls.__qualname__}.Rule"
    return cls


def _rule(function: _Function, home: dict) -> type[UpdateRule]:
    usual = Hyperparameter()
    for key, value in function.defaults.items():
        setattr(usual, key, value)

    def __init__(self, parent_hyperparam=None, **kwargs):
        super(cls, self).__init__(parent_hyperparam or usual)
        for key, value in kwargs.items():
            if key not in function.defaults:
                known = ", ".join(function.defaults)
                raise TypeError(f"{function.name}: expected hyperparameters {known}; got {key}")
            setattr(self.hyperparam, key, value)

    def init_state(self, param):
        with chainer.using_device(param.device):
            for name in function.states:
                self.state[name] = param.device.xp.zeros_like(param.array)

    def update_core(self, param):
        if param.grad is None:
            return
        targets = [param.array, *(self.state[name] for name in function.states)]
        given = [_to_read(x) for x in (param.array, param.grad, *targets[1:])]
        values = {key: getattr(self.hyperparam, key) for key in function.defaults}
        found = results_of(function.step(values, self.t)(*given), len(targets), function.name)
        # What it was given itself, may be written before it is read.
        news = [new.copy() if any(new is x for x in given) else new for new in found]
        for target, new in zip(targets, news, strict=True):
            target[...] = new

    space = {
        **home,
        "__doc__": f"The update rule of {function.name}.",
        "__init__": __init__,
        "init_state": init_state,
        "is_elementwise": True,
        "update_core": update_core,
    }
    cls = type("Rule", (UpdateRule,), space)
    add_row(
        RuleRow(
            rule=cls,
            op=function.name,
            hyperparameters=tuple(function.defaults),
            scalars=lambda values, t, dtype, extra: (),
            n_scalars=0,
            state=lambda options: tuple(function.states),
            function=function,
        )
    )
    return cls


def _to_read(array):
    """An array that a function cannot write to, where it is NumPy's."""
    if not isinstance(array, np.ndarray):
        return array
    view = array.view()
    view.flags.writeable = False
    return view
