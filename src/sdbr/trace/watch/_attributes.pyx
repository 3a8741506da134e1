"""What reading an attribute means: which of its parts come from outside the call."""

import functools
import logging
import types
import weakref

from sdbr.devices.arrays import ARRAYS
from sdbr.trace.watch._looks import MISSING, superior
from sdbr.trace.watch.fingerprints import VARIABLES, module_of
from sdbr.trace.code._library import stands_in
from sdbr.trace.watch._following import is_library_class
from sdbr.trace.watch.reads import is_ours

import chainer

from cpython.object cimport PyObject

from sdbr.trace.watch._escaping cimport escape
from sdbr.trace.watch._following cimport is_followed
from sdbr.trace.watch._looks cimport class_attribute, field, is_a, is_atom, item, lookup
from sdbr.trace.watch._notes cimport Notes

cdef extern from "Python.h":
    """
    #define sdbr_getter(kind) (((PyTypeObject *)(kind))->tp_getattro)
    """
    ctypedef object (*getattrofunc)(object, object)
    getattrofunc getter_of "sdbr_getter"(object) noexcept
    object PyObject_GenericGetAttr(object, object)

# Numbers of `How` in _looks.pxd.
VALUE, METHOD, CLASS_METHOD, CODE, ABSENT = range(5)
_FUNCTION = types.FunctionType
#: Ways to find attributes that are as `lookup` says, beside that of `object`.
_USUAL = frozenset(
    class_attribute(kind, "__getattribute__")
    for kind in (object, type, types.ModuleType, types.MethodType, functools.partial)
)
#: Of a frame: what is of others as well.
_OF_CALLERS = frozenset({"f_back", "f_locals"})
#: Of a Variable: what it has. The rest it computes.
_OF_VARIABLES = frozenset({
    "array", "chx_array", "creator", "creator_node", "data", "device", "dtype", "grad", "grad_var",
    "label", "name", "ndim", "node", "rank", "requires_grad", "shape", "size", "xp",
})  # fmt: skip


cpdef object attribute(Notes notes, thing, str name):
    """The code reads ``thing.name``."""
    kind = type(thing)
    if kind is super:
        start, kind = thing.__thisclass__, thing.__self_class__
        return super_attribute(notes, start, thing.__self__, kind, name)
    if kind is types.MethodType and lookup(thing, name)[0] == ABSENT:
        thing, kind = thing.__func__, _FUNCTION
    if kind is types.FrameType and name in _OF_CALLERS:
        notes.mark_dynamic(f"looks into frames: {name}")
    if name == "_creator_node" and notes.holds_nodes is not None:
        notes.holds_nodes()
    if is_followed(notes.special(thing, "__getattribute__")):
        return None
    return as_usual(notes, thing, name)


cpdef object as_usual(Notes notes, thing, str name):
    """The code reads ``object.__getattribute__(thing, name)``."""
    kind = type(thing)
    if name == "__dict__" and finds_as_usual(kind):
        notes.asked = thing, name
        return None
    if is_a(thing, ARRAYS):
        escape(notes, thing)
    if notes.is_own(thing):
        return _of_class(notes, thing, kind, name)
    if not finds_as_usual(kind):
        return _ask(notes, thing, name)
    how, found = lookup(thing, name)
    if type(found) is types.ClassMethodDescriptorType or (
        how == METHOD and not kind.__flags__ & 1 << 9
    ):
        return None  # a method of a class that nobody can change
    if type(class_attribute(kind, name)) is types.GetSetDescriptorType:
        answered(notes, thing, "attribute", name, found)
    else:
        notes.read(thing, "attribute", name, found)
    if how == CODE:
        _described(notes, thing, name, found)
    elif how == ABSENT:
        get = (
            field(thing, "__getattr__")
            if kind is types.ModuleType
            else notes.special(thing, "__getattr__")
        )
        if get is not MISSING and not is_followed(get):
            _ask(notes, thing, name)
    return None


cdef object _of_class(Notes notes, thing, object kind, str name):
    """The object is the call's own, its class may be from outside."""
    if is_library_class(kind):
        return
    if class_attribute(kind, name) is MISSING and field(thing, name) is not MISSING:
        return
    notes.special(thing, name)
    if lookup(thing, name)[0] == ABSENT:
        notes.special(thing, "__getattr__")


cdef object _described(Notes notes, thing, str name, found):
    """Code of a descriptor gives the value; that of the user's is followed."""
    if type(found) is property:
        get = found.fget
    elif type(found) is functools.cached_property:
        get = found.func
    else:
        get = class_attribute(type(found), "__get__")
    if not is_followed(get):
        notes.runs(get)
        _ask(notes, thing, name)


cdef object _ask(Notes notes, thing, str name):
    """Code of a library gives the value: it is asked again before replays."""
    if not is_a(thing, VARIABLES) or name in _OF_VARIABLES:
        notes.asked = thing, name


cpdef object super_attribute(Notes notes, object start, thing, object kind, str name):
    """The code reads ``super(start, thing).name``."""
    if kind is None or notes.is_own(thing):
        holder = kind
    else:
        holder = thing
    if holder is not None and not is_library_class(kind):
        found = superior(start, thing, kind, name)
        notes.place("super", notes.root(holder), (start, kind, name), found)


cpdef object has_attribute(Notes notes, thing, str name):
    """The code asks ``hasattr(thing, name)``, or ``getattr`` with a default."""
    if type(thing) is super:
        return attribute(notes, thing, name)
    how, found = lookup(thing, name)
    if is_atom(thing) or notes.is_own(thing):
        return _of_class(notes, thing, type(thing), name)
    if how != ABSENT and how != CODE:
        return notes.fact(thing, "attribute", name) or None
    get = found if how == CODE else class_attribute(type(thing), "__getattr__")
    get = getattr(get, "fget", get)
    seen = get is MISSING or is_followed(get)
    return notes.fact(thing, "attribute" if seen else "hasattr", name) or None


cpdef bint finds_as_usual(object kind) except -1:
    """Whether attributes of objects of a class are found as `lookup` finds them."""
    if getter_of(kind) == PyObject_GenericGetAttr:
        return True
    get = class_attribute(kind, "__getattribute__")
    return get in _USUAL or stands_in(get) or is_followed(get)


cpdef object write_attribute(Notes notes, thing, str name, bint deletes = False, value = None):
    """The code sets ``thing.name``, or deletes it."""
    own = class_attribute(type(thing), name)
    how = notes.special(thing, "__delattr__" if deletes else "__setattr__")
    if is_followed(how):
        return
    if how is dict.__setitem__ or how is dict.__delitem__:
        notes.wrote(thing, "item", name, deletes or item(thing, name) is MISSING)
        return
    if type(own) is property:
        if is_followed(own.fdel if deletes else own.fset):
            return
    elif is_followed(class_attribute(type(own), "__delete__" if deletes else "__set__")):
        return
    elif not deletes and own is not MISSING and not keeps(own):
        escape(notes, value)
    wrote_attribute(notes, thing, name, deletes)


cdef bint keeps(own) except -1:
    """Whether what is set by what a class has is kept as it is: a slot, or no descriptor."""
    if type(own) is types.MemberDescriptorType:
        return own.__objclass__.__flags__ & 1 << 9
    return class_attribute(type(own), "__set__") is MISSING


cpdef object wrote_attribute(Notes notes, thing, str name, bint deletes = False):
    """An attribute is set by nobody else's code, or deleted, if it is there."""
    if deletes and not (is_a(thing, (type,)) and is_library_class(thing)):
        notes.fact(thing, "attribute", name)
    if type(thing) in weakref.ProxyTypes:
        notes.mark_dynamic(f"sets {name!r} through a weak proxy")
    notes.wrote(thing, "attribute", name, deletes or lookup(thing, name)[1] is MISSING)
    if not finds_as_usual(type(thing)) and module_of(type(thing)) == "_thread":
        notes.wrote(thing.__dict__, "item", name, name not in thing.__dict__)


# Whose locks are of caches, for a moment.
cdef tuple CACHES = (functools.__file__, logging.__file__)


cpdef int waits(Notes notes) except -1:
    """The code waits for a lock."""
    if notes.layout is None or notes.layout.code.co_filename not in CACHES:
        notes.mark_dynamic("waits for other threads")
    return 0


cpdef object enter_context(Notes notes, thing):
    """The code begins a ``with`` block."""
    kind = type(thing)
    followed = True
    for name in ("__enter__", "__exit__"):
        followed = is_followed(notes.special(thing, name)) and followed
    if module_of(kind) in ("_thread", "threading"):
        waits(notes)
    elif not followed and not is_a(thing, (chainer.Link,)):
        escape(notes, thing)


cpdef object match(Notes notes, thing, kind, int n, tuple names):
    """The code matches an object with a class, `n` attributes by place and some by name."""
    if n:
        attribute(notes, kind, "__match_args__")
        found = lookup(kind, "__match_args__")[1]  # `float` has none: it is the number itself
        names = names if found is MISSING else (*found[:n], *names)
    if is_a(thing, (kind,)):
        for name in names:
            attribute(notes, thing, name)


cdef int answered(Notes notes, thing, str kind, str name, value) except -1:
    """What compiled code has made just now, where it was asked for an attribute, hangs on all that
    it sees."""
    notes.read(thing, kind, name, value)
    if notes.fresh.has(<PyObject *>value) and not notes.is_own(thing):
        if not is_atom(value) and not is_a(value, (*ARRAYS, *VARIABLES)) and not is_ours(value):
            notes.fact(thing, "contents")
    return 0
