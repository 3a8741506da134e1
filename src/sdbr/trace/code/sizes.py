"""Whether code of the user's can ask an array for its size, or go a way that depends on it.

Nothing follows a size through Python: ``len(x)`` is an ordinary int. A trace serves other sizes
only where the user's code cannot get hold of one. So what it may use is listed, and all else counts
as asking: a name that an array or a Variable has, a module but for Chainer's own, a builtin, an
object of a class that is not known.
"""

from __future__ import annotations

import builtins
import dis
import functools
import operator
import types

from sdbr.trace.code._library import is_library
from sdbr.trace.code.reading import plain_fields

import chainer
import numpy as np
from chainer import functions as F
from chainer import links as L

#: Functions of Chainer that go one way for all sizes of 2 and more, but for what their nodes show.
FUNCTIONS = frozenset({
    "absolute", "accuracy", "add", "average_pooling_2d", "batch_normalization", "clip",
    "clipped_relu", "concat", "convolution_2d", "cos", "deconvolution_2d", "dropout", "elu",
    "embed_id", "exp", "expand_dims", "fixed_batch_normalization", "hard_sigmoid", "huber_loss",
    "identity", "layer_normalization", "leaky_relu", "linear", "log", "log1p", "log_softmax",
    "matmul", "max_pooling_2d", "maximum", "mean", "mean_absolute_error", "mean_squared_error",
    "minimum", "relu", "reshape", "sigmoid", "sigmoid_cross_entropy", "sin", "softmax",
    "softmax_cross_entropy", "softplus", "sqrt", "square", "squared_error", "sum", "swish", "tanh",
    "transpose",
})  # fmt: skip
#: Links of Chainer of which the same is true.
LINKS = (
    L.BatchNormalization, L.Classifier, L.Convolution2D, L.Deconvolution2D, L.EmbedID, L.Linear,
    chainer.Chain, chainer.ChainList, chainer.Sequential, chainer.Parameter,
)  # fmt: skip
_BUILTINS = frozenset({"super", "range", "isinstance", "enumerate", "zip", "list", "tuple"})
#: What these names give of an array shows in the trace: an array, or what depends on no size.
_HARMLESS = frozenset({
    "T", "array", "data", "dtype", "forward", "loss", "mean", "name", "reshape", "sum",
    "transpose",
})  # fmt: skip
_OF_CHAINER = frozenset({
    "Variable", "config", "functions", "links", "no_backprop_mode", "report", "using_config",
})  # fmt: skip
#: Attributes by which code gets at an array's size, at a module, or at anything at all.
_ASKING = (
    (frozenset(dir(np.ndarray)) | frozenset(dir(np.generic)) | frozenset(dir(chainer.Variable)))
    - _HARMLESS
    | frozenset(dir(chainer)) - _OF_CHAINER
    | frozenset(dir(F)) - FUNCTIONS
    | {"numpy", "np", "six", "xp", "backend", "utils", "type_check"}
) - {"__init__"}
_ASKING -= FUNCTIONS | _HARMLESS | _OF_CHAINER
_OPCODES = ("FORMAT", "GET_LEN", "MATCH", "BUILD_STRING", "CONVERT", "IMPORT", "STORE_GLOBAL")
_PLAIN = (int, float, str, bool, type(None), bytes)
_MODULES = (chainer, F, L)
#: What classes of the user's may be derived from: it calls nothing of theirs but `forward`.
_BASES = frozenset(
    (*chainer.Sequential.__mro__, *chainer.ChainList.__mro__, *chainer.Chain.__mro__)
)
_VARIABLES = (chainer.Variable, chainer.Parameter)
_DESCRIPTORS = (
    types.MemberDescriptorType, types.GetSetDescriptorType,
    types.WrapperDescriptorType, types.MethodDescriptorType,
)  # fmt: skip
_MISSING = object()


def asks_no_size(around, owner) -> bool:
    """Whether nothing in the user's code can tell one batch size from another.

    Parameters
    ----------
    around : Outside
        What the call may reach.
    owner : chainer.Link or None
    """
    if around.reason is not None or around.draws or around.unwatched or around.names_nodes:
        return False
    if owner is not None and not all(map(_holds_known, owner.links())):
        return False
    if not (_is_as_it_was() and all(map(_has_known_members, around.classes))):
        return False
    return all(map(_is_known, around._walked.values())) and all(
        _asks_nothing(function.__code__) and all(map(_is_known, _reached(function)))
        for function in around.functions
    )


def _reached(function: types.FunctionType) -> list:
    """What a function gets from outside by name; what is not there counts as unknown."""
    found: list = []
    for name in _globals_of(function.__code__):
        thing = function.__globals__.get(name, _MISSING)
        if thing is _MISSING:
            if name not in _BUILTINS or not hasattr(builtins, name):
                return [_MISSING]
            continue
        found.append(thing)
    for cell in function.__closure__ or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:
            return [_MISSING]
    found += function.__defaults__ or ()
    return found + list((function.__kwdefaults__ or {}).values())


@functools.lru_cache(maxsize=1024)
def _asks_nothing(code: types.CodeType) -> bool:
    """Whether the byte code names nothing that tells a size."""
    for i in dis.get_instructions(code):
        if i.opname.startswith(_OPCODES):
            return False
        if i.opname in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR") and i.argval in _ASKING:
            return False
    return all(_asks_nothing(x) for x in code.co_consts if isinstance(x, types.CodeType))


@functools.lru_cache(maxsize=1024)
def _globals_of(code: types.CodeType) -> frozenset:
    found = {
        i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")
    }
    return frozenset(found).union(
        *[_globals_of(x) for x in code.co_consts if isinstance(x, types.CodeType)]
    )


def _holds_known(link: chainer.Link) -> bool:
    """Whether a link is one that is known, or the user's own, and holds nothing else."""
    return _is_known(link) and not any(
        isinstance(thing, types.ModuleType)
        or (isinstance(thing, chainer.Variable) and type(thing) not in _VARIABLES)
        for thing in list(link.__dict__.values())
    )


def _has_known_members(cls: type) -> bool:
    """Whether what is behind static methods and properties of a user's class is known, too."""
    for member in list(cls.__dict__.values()):
        if isinstance(member, (staticmethod, classmethod, property)):
            inner = [getattr(member, name, None) for name in ("__func__", "fget", "fset", "fdel")]
            if not all(map(_is_known, inner)):
                return False
    return True


def _is_as_it_was() -> bool:
    """Whether functions and links of Chainer, and its configuration, are no code of the user's."""
    shared, own = chainer.global_config.__dict__, chainer.config._local.__dict__
    code = _listed_code()
    same = all(map(operator.is_, code, _CODE))  # which has been looked at
    return (same or all(map(is_library, code))) and not any(
        callable(thing) and not isinstance(thing, type)
        for thing in (*list(shared.values()), *list(own.values()))
    )


def _listed_code() -> list:
    forwards = [link.__dict__.get("forward", chainer.Link) for link in LINKS]
    return [*map(vars(F).__getitem__, FUNCTIONS), *forwards]


_CODE = [thing if is_library(thing) else None for thing in _listed_code()]


def _is_known(thing) -> bool:
    """Whether code that has `thing` cannot learn a size by it."""
    kind = type(thing)
    if kind in _PLAIN:
        return True
    if kind in (dict, list, tuple, set, frozenset):
        # What they hold has been walked, too, but for modules.
        items = list(thing.values()) if kind is dict else list(thing)
        return not any(isinstance(item, types.ModuleType) for item in items)
    if kind in _DESCRIPTORS:
        return thing.__objclass__.__module__.startswith("_cython_")
    if _is_ours(kind.__module__) or isinstance(thing, np.dtype):
        return True
    if kind.__module__.startswith("_cython_"):  # a wrapper of ours: what it wraps is walked
        return _is_ours(thing.__module__) or hasattr(thing, "_sdbr_function")
    if isinstance(thing, types.ModuleType):
        return any(thing is module for module in _MODULES)
    if isinstance(thing, chainer.Link):
        classes = [base for base in kind.__mro__ if "_sdbr_base" not in base.__dict__]
        if is_library(classes[0]):
            return classes[0] in LINKS
        return all(not is_library(base) or base in _BASES for base in classes)
    if isinstance(thing, types.MethodType):
        return _is_known(thing.__self__) and _is_known(thing.__func__)
    if isinstance(thing, types.FunctionType):
        return not is_library(thing) or _is_listed(thing) or _is_ours(thing.__module__)
    if isinstance(thing, type):
        return issubclass(thing, chainer.Link)
    return _is_plain(thing)


def _is_plain(thing) -> bool:
    """Whether `thing` is an object of the user's whose code is read, and what it holds walked."""
    kind = type(thing)
    if type(kind) is not type or any(is_library(base) for base in kind.__mro__[:-1]):
        return False
    fields = plain_fields(thing)
    return fields is not None and not any(
        isinstance(field, types.ModuleType) for field in fields.values()
    )


def _is_ours(module: str | None) -> bool:
    """Whether a module is of this package; functions made by ``exec`` may be of none."""
    return module is not None and module.partition(".")[0] == "sdbr"


def _is_listed(function: types.FunctionType) -> bool:
    name = function.__name__
    return function is chainer.report or (name in FUNCTIONS and getattr(F, name) is function)
