"""Whether code of the user's can ask an array for its size, or go a way that depends on it.

Nothing follows a size through Python: ``len(x)`` is an ordinary int. A trace serves other sizes
only where the user's code has got hold of none. So what the code that ran may have called is
listed, and all else counts as asking; and so does a name that an array or a Variable has.
"""

from __future__ import annotations

import collections
import dis
import functools
import operator
import types

from sdbr.devices.arrays import ARRAYS
from sdbr.trace.code._library import is_library, stands_in

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
#: What classes of the user's may be derived from: it calls nothing of theirs but `forward`.
_BASES = frozenset(
    (*chainer.Sequential.__mro__, *chainer.ChainList.__mro__, *chainer.Chain.__mro__)
)
_VARIABLES = (chainer.Variable, chainer.Parameter)
#: What may be called: it goes over things, or is told of them.
_CALLED = frozenset(map(id, (
    super, range, isinstance, enumerate, zip, list, tuple, chainer.Variable, chainer.report,
    chainer.using_config, chainer.no_backprop_mode,
)))  # fmt: skip
#: Modules of Chainer whose functions are about links, and about the Variables themselves.
_ABOUT = frozenset({"chainer.function", "chainer.link", "chainer.sequential", "chainer.variable"})
_CONTAINERS = (dict, list, set, *ARRAYS)
_COMPILED = (
    types.BuiltinMethodType, types.MethodWrapperType, types.MethodDescriptorType,
    types.WrapperDescriptorType,
)  # fmt: skip


def asks_no_size(ran: list, owner) -> bool:
    """Whether nothing in the user's code can tell one batch size from another.

    Parameters
    ----------
    ran : list
        The code objects of his that ran, and what they have called.
    owner : chainer.Link or None
    """
    links = () if owner is None else owner.links()
    code = _listed_code()
    listed = _CALLED.union(map(id, code))
    ran = [x.__wrapped__ if stands_in(x) and hasattr(x, "__wrapped__") else x for x in ran]
    return (
        _is_as_it_was(code)
        and all(map(_holds_known, links))
        and all(id(thing) in listed or _is_known(thing) for thing in ran)
    )


@functools.lru_cache(maxsize=1024)
def _asks_nothing(code: types.CodeType) -> bool:
    """Whether the byte code names nothing that tells a size, and catches no error."""
    names = collections.Counter(i.opname for i in dis.get_instructions(code))
    catches = names["PUSH_EXC_INFO"] > names["WITH_EXCEPT_START"] or names["SETUP_FINALLY"]
    return not (catches or code.co_name == "__exit__") and not any(
        i.opname.startswith(_OPCODES)
        or (i.opname in ("LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR") and i.argval in _ASKING)
        for i in dis.get_instructions(code)
    )


def _holds_known(link: chainer.Link) -> bool:
    """Whether a link is one that is known, or the user's own, and holds no other Variables."""
    return _is_known_link(link) and not any(
        issubclass(type(thing), chainer.Variable) and type(thing) not in _VARIABLES
        for thing in list(link.__dict__.values())
    )


def _is_as_it_was(code: list) -> bool:
    """Whether functions and links of Chainer, and its configuration, are no code of the user's."""
    shared, own = chainer.global_config.__dict__, chainer.config._local.__dict__
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
    """Whether code is the user's and asks for no size; whether calling `thing` tells none."""
    kind = type(thing)
    if kind is types.CodeType:
        return _asks_nothing(thing)
    if _is_ours(kind.__module__):
        return True
    if kind is types.MethodType:
        return _is_known(thing.__func__)
    if kind is functools.partial:
        return _is_known(thing.func)
    if kind is types.FunctionType:  # the user's own tells what it does when it runs
        module = thing.__module__
        about = module in _ABOUT and thing.__name__ not in _ASKING
        return not is_library(thing) or about or _is_ours(module)
    if kind in _COMPILED:
        owner = getattr(thing, "__objclass__", None) or type(thing.__self__)
        return issubclass(owner, _CONTAINERS) and thing.__name__ not in _ASKING
    if issubclass(kind, chainer.Link):
        return _is_known_link(thing)
    made = thing if issubclass(kind, type) else kind
    return all(base is object or not is_library(base) for base in made.__mro__)


def _is_known_link(link: chainer.Link) -> bool:
    classes = [base for base in type(link).__mro__ if "_sdbr_base" not in base.__dict__]
    if is_library(classes[0]):
        return classes[0] in LINKS
    return all(not is_library(base) or base in _BASES for base in classes)


def _is_ours(module) -> bool:
    """Whether it is the name of a module of this package; functions made by ``exec`` may have none,
    and compiled methods, on Python 3.10, something else."""
    return isinstance(module, str) and module.partition(".")[0] == "sdbr"
