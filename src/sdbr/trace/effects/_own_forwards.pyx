# cython: language_level=3
"""Links of Chainer's that run no code of the user's: nobody has to be watched inside of them.

A profile function makes Python slow wherever it is in place, not only where it has something to
say: it keeps the interpreter from the quick forms of its instructions.
"""

import sys
import types

from sdbr.trace.arrays.stripping import TRACED
from sdbr.trace.code._library import is_library
from sdbr.trace.code.reading import names_in

import chainer
import numpy as np
from chainer import links as L

#: Their forwards call functions and links of Chainer's, and none that they were given.
LINKS = frozenset({
    L.BatchNormalization, L.Bias, L.Bilinear, L.Convolution1D, L.Convolution2D, L.Convolution3D,
    L.ConvolutionND, L.Deconvolution1D, L.Deconvolution2D, L.Deconvolution3D, L.DeconvolutionND,
    L.DepthwiseConvolution2D, L.DilatedConvolution2D, L.EmbedID, L.GRU, L.GroupNormalization,
    L.LSTM, L.LayerNormalization, L.Linear, L.LocalConvolution2D, L.NStepBiGRU, L.NStepBiLSTM,
    L.NStepGRU, L.NStepLSTM, L.PReLU, L.Scale, L.StatefulGRU, L.StatefulPeepholeLSTM,
    L.StatelessGRU, L.StatelessLSTM,
})  # fmt: skip
cdef object _LINK_CALL = chainer.Link.__call__.__code__
cdef object _generic_get = object.__getattribute__
cdef frozenset _PLAIN = frozenset({
    chainer.Variable, chainer.Parameter, np.ndarray, int, float, bool, type(None),
})  # fmt: skip


cdef class OwnForwards:
    """What stands for the ``forward`` of links while one call is traced.

    Parameters
    ----------
    watch : CallWatch
        Pauses inside of a link that runs no code of the user's, and goes on in one that does and
        is called there.
    """

    def __init__(self, watch):
        self.watch = watch
        self.classes = {}
        self.links = {}

    cpdef object of(self, link, forward):
        """What ``Link.__call__`` gets for ``link.forward``; whoever else asks gets it as it is."""
        if type(forward) is not types.MethodType or sys._getframe(0).f_code is not _LINK_CALL:
            return forward
        cdef bint own = self.is_own(link, forward)
        return forward if own == self.paused else Forward(self, forward, own)

    cdef bint is_own(self, link, forward) except -1:
        known = self.links.get(id(link))
        if known is None or known[0] is not forward.__func__:
            function = forward.__func__
            own = self.is_as_it_was(type(link)) and function is type(link).forward
            own = own and forward.__self__ is link and _has_values(link)
            known = self.links[id(link)] = (function, own, link)
        return known[1]

    cdef bint is_as_it_was(self, cls) except -1:
        """Whether a class is one of those, and nothing that its code names is the user's."""
        found = self.classes.get(cls)
        if found is None:
            found = cls in LINKS and all([
                is_library(thing)
                for base in cls.__mro__
                if base.__module__.startswith("chainer.links.")
                for member in list(vars(base).values())
                if type(member) is types.FunctionType
                for thing in (member, *_named(member))
            ])
            self.classes[cls] = found
        return found


cdef class Forward:
    """A ``forward`` in which the watch pauses, or goes on again.

    Parameters
    ----------
    forwards : OwnForwards
    forward : method
    own : bool
        Whether it runs no code of the user's.
    """

    cdef OwnForwards forwards
    cdef object forward
    cdef bint own

    def __init__(self, OwnForwards forwards, forward, bint own):
        self.forwards = forwards
        self.forward = forward
        self.own = own

    def __call__(self, *args, **kwargs):
        if self.own and not (_are_plain(args) and _are_plain(tuple(kwargs.values()))):
            return self.forward(*args, **kwargs)
        self.turn(self.own)
        try:
            return self.forward(*args, **kwargs)
        finally:
            self.turn(not self.own)

    cdef int turn(self, bint paused) except -1:
        self.forwards.paused = paused
        if paused:
            self.forwards.watch.pause()
        else:
            self.forwards.watch.go_on()


cdef bint _are_plain(tuple things) except -1:
    """Whether the arguments are of classes that have no code of the user's."""
    for thing in things:
        kind = type(thing)
        if kind in (tuple, list):
            if not _are_plain(tuple(thing)):
                return False
        elif kind not in _PLAIN and kind not in TRACED:
            return False
    return True


cdef bint _has_values(link) except -1:
    """Whether all parameters below a link have values: initializers may be the user's."""
    fields = _generic_get(link, "__dict__")
    for name in fields["_params"]:
        parameter = fields.get(name)
        if type(parameter) is not chainer.Parameter or parameter._data[0] is None:
            return False
    children = fields.get("_children", ())
    for child in children if type(children) is list else [fields.get(x) for x in children]:
        if not _has_values(child):
            return False
    return True


cdef list _named(function):
    """Functions and classes that the code of a function names, also as attributes of modules."""
    names, _, attributes = names_in(function.__code__)
    space = function.__globals__
    found = [space[name] for name in names if name in space]
    modules = [vars(x) for x in found if type(x) is types.ModuleType and is_library(x)]
    found += [space[name] for space in modules for name in attributes if name in space]
    return [x for x in found if type(x) is types.FunctionType or isinstance(x, type)]
