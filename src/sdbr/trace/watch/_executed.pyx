"""The frames that a call executes, and the operands of their instructions."""

import functools
import types

from sdbr.devices.arrays import Array as Device
from sdbr.trace.code._library import stands_in
from sdbr.trace.code.foreign import is_users
from sdbr.trace.watch._following import follows_file, is_library_class, is_stdlib
from sdbr.trace.watch._flowing import looked_at
from sdbr.trace.watch._frames import NULLS
from sdbr.trace.watch.reads import KIND_ALONE, environment
from sdbr.trace.watch.sources import Source, hold

import chainer
import numpy as np
from chainer import reporter

from cpython.object cimport PyObject

from sdbr.trace.watch._attributes cimport answered, finds_as_usual
from sdbr.trace.watch._calls cimport call
from sdbr.trace.watch._frames cimport (
    VERSION,
    frame_cell,
    frame_function,
    frame_lasti,
    frame_locals,
)
from sdbr.trace.watch._looks cimport is_a, lookup
from sdbr.trace.watch._notes cimport Notes

cdef extern from "Python.h":
    bint is_tracked "PyObject_GC_IsTracked"(PyObject *) noexcept
    Py_ssize_t references "Py_REFCNT"(PyObject *) noexcept
    PyObject *PyDict_GetItem(dict, object)
    PyObject *type_of "(PyObject *)Py_TYPE"(PyObject *) noexcept
    PyObject *PyLong_Type "((PyObject *)&PyLong_Type)"
    PyObject *PyFloat_Type "((PyObject *)&PyFloat_Type)"
    PyObject *PyUnicode_Type "((PyObject *)&PyUnicode_Type)"

cdef PyObject *Array = <PyObject *>np.ndarray
cdef PyObject *OnDevice = <PyObject *>Device
cdef frozenset METHODS = frozenset(x for x in dir(np.ndarray) if callable(getattr(np.ndarray, x)))
cdef object Nulls = NULLS
cdef object Cached = functools._lru_cache_wrapper
cdef tuple SPACES = (dict, types.MappingProxyType)

# What the tracer's own code computes with.
cdef tuple TRACED = (chainer.Link, chainer.Variable, np.ndarray, np.generic)


cdef bint is_tracers(thing) except -1:
    return is_a(thing, TRACED) or stands_in(thing) or stands_in(type(thing))


cdef tuple functions_in(member):
    """The functions of what lies in a class."""
    kind = type(member)
    if kind is property:
        return member.fget, member.fset, member.fdel
    return (member.__func__,) if kind is classmethod or kind is staticmethod else (member,)


cdef bint of_libraries(frame) except -1:
    """Whether a frame is of the standard library or of ours."""
    name = frame.f_globals.get("__name__")
    return is_stdlib(frame.f_code.co_filename) or str(name).partition(".")[0] == "sdbr"


cdef enum Flags:
    OPTIMIZED = 0x1
    STAR = 0x4
    STARS = 0x8
    RESUMED = 0x2A0  # generators and the like


cdef class Executed(Notes):
    """The frames of one call, and the operands of what they execute."""

    def __init__(self):
        Notes.__init__(self)
        self.begun, self.entered_before, self.names_seen = set(), set(), {}
        self.looked_for = set()
        self.functions, self.is_called, self.pending, self.keywords = [], [], [], ()

    def begin(self, function, args, kwargs):
        """The call that comes next: its arguments get their names."""
        self.fresh.start(self)
        reads = self.reads
        reads.add_source(Source("given", None, None))
        reads.add(reads.sources[0], "value", None, (tuple, (int, len(args)), *(
            (str, name) for name in kwargs)))
        self.settings = environment()
        reads.add(self.root(np), "environment", None, self.settings)
        self.is_made(reporter._thread_local)  # the recorder adds one to the reporters in it
        self.is_made(reporter._get_reporters())
        settings = chainer.config._local.__dict__  # of this thread
        self.starts[<size_t><PyObject *>settings] = dict(settings)
        self.kept.append(settings)
        plain, n = function, 0
        if type(plain) is types.MethodType:
            plain, n = plain.__func__, 1
            self.place(
                "constant", None, hold(function.__self__), function.__self__, "self"
            ).leads_there = True
        elif type(plain) is not types.FunctionType:
            self.root(function).leads_there = True
        if (place := getattr(plain, "_sdbr_place", None)) is not None:  # looked up by each call
            self.read(place[0], "attribute", place[1], lookup(place[0], place[1])[1])
        code = getattr(plain, "__code__", None)
        names = code.co_varnames[n:code.co_argcount] if code is not None else ()
        for i, x in enumerate(args):
            self.place("argument", None, i, x, names[i] if i < len(names) else f"args[{i}]")
        for name, x in kwargs.items():
            self.place("keyword", None, name, x, name)
        self.function = call(self, function, list(args), kwargs)

    def end(self):
        """The call is over; nothing that it has touched is kept."""
        self.fresh.stop()
        for part in (
            self.homes, self.starts, self.owners, self.sources, self.facts, self.written,
            self.touched, self.given_away, self.kept, self.begun, self.entered_before,
            self.names_seen, self.functions, self.is_called, self.pending, self.yields,
            self.looked_for, self.writers, self.before, self.shown, self.places, self.beside,
            self.ran,
        ):
            part.clear()
        self.inner = self.around = self.shared = None
        self.asked = self.function = self.callee = None
        self.meets = self.writes = self.shows = self.knows = self.stands = self.holds_nodes = None
        self.moves = self.moving = self.moved = None

    cpdef int wrote_beside(self, Notes other, bint is_free) except -1:
        """The next read of a name may be of what the code has written, or the call has since."""
        self.names_seen.clear()
        (<Executed> other).names_seen.clear()
        return Notes.wrote_beside(self, other, is_free)

    # --- what the frames do ---------------------------------------------------------------------
    cpdef bint follows(self, code) except -1:
        return follows_file(code.co_filename)

    cpdef bint wants(self, frame) except -1:
        """What may be the library's is followed where code that is followed has called it."""
        name = frame.f_code.co_filename
        if not is_stdlib(name) and name[:1] != "<":
            return True
        if self.function is not None and self.function.__code__ is frame.f_code:
            return True
        back = frame.f_back
        if <PyObject *>back == self.top:
            return not self.is_in_ours()
        # Code that was made by the library, or by the user, for whom others may call it.
        return not is_stdlib(name) and (self.top == NULL or not of_libraries(back))

    cdef bint is_in_ours(self) except -1:
        """Whether what is executed runs compiled code of ours, which calls others."""
        if self.callee is not None:
            return is_tracers(self.callee)
        # Operands are on the stack until the instruction is done.
        return (self.first != NULL and is_tracers(<object>self.first)) or (
            self.second != NULL and is_tracers(<object>self.second))

    cpdef int entered(self, frame) except -1:
        cdef PyObject *function = frame_function(self.top)
        expected, self.function = self.function, None
        self.hand_over(NULL)
        known = expected
        if function != NULL:
            known = <object>function
        elif expected is not None and expected.__code__ is not self.layout.code:
            known = None
        self.functions.append(known)
        self.is_called.append(known is not None and known is expected)
        # Of the frame below, which is in the middle of an instruction.
        self.pending.append((self.asked, self.callee, <size_t>self.first, <size_t>self.second))
        self.asked = self.callee = None
        self.begin_frame(frame)
        self.runs(self.layout.code)
        if expected is None or known is not expected:
            self.find_in_class()
        known = self.functions[-1]
        if known is not None and <size_t><PyObject *>known not in self.entered_before:
            self.fact(known, "definition")
            if not self.is_own(known):
                self.find_defaults(known)
            if <size_t><PyObject *>known in self.homes:
                self.entered_before.add(<size_t><PyObject *>known)
        return 0

    cdef int find_defaults(self, function) except -1:
        """Objects that a function has as defaults are the same while its definition is."""
        code, given = function.__code__, function.__defaults__ or ()
        names = code.co_varnames[code.co_argcount - len(given):code.co_argcount]
        for i, x in (*enumerate(given), *(function.__kwdefaults__ or {}).items()):
            if not self.is_own(x) or <size_t>type_of(<PyObject *>x) == <size_t>Array:
                name = i if type(i) is str else names[i]
                self.place("default", self.root(function), i, x, name)
        return 0

    cdef int find_in_class(self) except -1:
        """Nobody has called the function by a name: its class has it for an operator, perhaps."""
        cdef PyObject *given = frame_locals(self.top)[0]
        code = self.layout.code
        if code.co_argcount + (code.co_flags & STAR) == 0:
            return 0
        if given == NULL and VERSION < 0x030B0000 and code.co_varnames[0] in code.co_cellvars:
            given = frame_locals(self.top)[
                code.co_nlocals + code.co_cellvars.index(code.co_varnames[0])]
        if given == NULL:
            return 0
        first = <object>given
        if type(first) is types.CellType:
            try:
                first = first.cell_contents
            except ValueError:  # deleted
                return 0
        for thing in (first, first[0]) if type(first) is tuple and first else (first,):
            for kind in (thing, type(thing)) if is_a(thing, (type,)) else (type(thing),):
                if is_library_class(kind) or (id(kind), id(code)) in self.looked_for:
                    continue
                self.looked_for.add((id(kind), id(code)))
                self.kept.append(kind)
                self.find_in(kind, code)
        return 0

    cdef int find_in(self, kind, code) except -1:
        """A class may have a function under several names, and within a descriptor."""
        for above in kind.__mro__:
            for name, x in list(above.__dict__.items()) if not is_library_class(above) else ():
                for function in functions_in(x):
                    if type(function) is not types.FunctionType or function.__code__ is not code:
                        continue
                    if self.functions[-1] is None:
                        self.functions[-1] = function
                    if name[:2] == "__":
                        self.read(kind, "attribute", name, lookup(kind, name)[1])
        return 0

    cdef int begin_frame(self, frame) except -1:
        cdef int at = frame_lasti(self.top)
        cdef PyObject *given
        code = self.layout.code
        cdef int flags = code.co_flags
        cdef bint begins = at < 0 if VERSION < 0x030B0000 else self.layout.units[at + 1] & 3 == 0
        if flags & RESUMED:
            if begins:
                self.begun.add(<size_t>self.top)
            elif <size_t>self.top not in self.begun:
                self.mark_dynamic(f"goes on with {code.co_name}, which began before the call")
        elif self.yields:  # a generator that is over may have lain here
            self.yields.pop(<size_t>self.top, None)
        if begins and flags & STARS:
            given = frame_locals(self.top)[
                code.co_argcount + code.co_kwonlyargcount + (1 if flags & STAR else 0)]
            if given != NULL:
                named = <object>given
                self.is_made(named.cell_contents if type(named) is types.CellType else named)
        if not flags & OPTIMIZED:
            space = frame.f_locals
            if space is not frame.f_globals and (self.evaluates or not space):  # of a class
                self.is_made(space)
        self.evaluates = False
        return 0

    cpdef int left(self, frame, value) except -1:
        if self.yields:
            for giver in (<size_t>self.top, id(self.layout.code)):
                if giver in self.yields:
                    (self.yields[giver] or looked_at)(self, value)
        self.functions.pop()
        self.is_called.pop()
        self.asked, self.callee, first, second = self.pending.pop()
        self.first, self.second = <PyObject *><size_t>first, <PyObject *><size_t>second
        return 0

    cpdef int unwound(self, frame) except -1:
        self.yields.pop(<size_t>self.top, None)
        return self.left(frame, None)

    cpdef int raised(self, frame, error) except -1:
        self.asked = None
        self.hand_over(NULL)
        return 0

    cdef int look_at_top(self) except -1:
        """What the last instruction gave, lies on the top."""
        cdef PyObject *top = self.operand(0), *kind
        self.first, self.second = top, NULL
        if self.asked is not None:
            (thing, name), self.asked = self.asked, None
            if type(name) is tuple:
                self.read(thing, "cached", name, <object>top)
                if type(thing) is Cached:  # which may compute another each time
                    self.fact(<object>top, "identity")
                return 0
            if top == NULL:  # the place of an object beside its method
                top = self.operand(1)
            elif self.binds and <object>top is thing and self.operand(1) != NULL:
                self.special(thing, name)  # a method of its class, and it
                top = NULL
            if top != NULL:
                if name == "__dict__" and finds_as_usual(type(thing)) and is_a(<object>top, SPACES):
                    # May be another object each time.
                    if self.is_own(thing):
                        self.is_made(<object>top)
                    self.owners[<size_t>top] = thing
                    self.kept.append(<object>top)
                else:
                    answered(self, thing, "asked", name, <object>top)
        if self.moved is not None:
            return self.hand_over(top)
        if top == NULL:
            return 0
        kind = type_of(top)
        if kind == Array or kind == OnDevice:
            return self.show(0, False)
        if references(top) != 1 or is_tracked(top):
            return 0
        # Nobody else has it, so it was made just now; the collector does not know it.
        if kind != PyLong_Type and kind != PyFloat_Type and kind != PyUnicode_Type:
            self.is_made(<object>top)
        return 0

    cpdef object place(self, str kind, parent, key, value, str name=""):
        source = Notes.place(self, kind, parent, key, value, name)
        if self.moving and type(value) in KIND_ALONE:
            self.hand_over(NULL)
            if str(source) in self.moving:
                self.moved = source, value
        return source

    cdef int hand_over(self, PyObject *top) except -1:
        """A number that moves is what an instruction gave; else it went where nobody follows it."""
        if self.moved is not None:
            (source, number), self.moved = self.moved, None
            shown = self.moves(source, number, top == <PyObject *>number)
            if shown is not None:
                self.put(0, shown)
        return 0

    cdef int show(self, int i, bint is_used) except -1:
        """An array from outside is an operand, or about to be `used`: NumPy does not tell when it
        is indexed, or has a method called; what stands for it does."""
        cdef PyObject *array = self.operand(i)
        if array == NULL or (type_of(array) != Array and type_of(array) != OnDevice):
            return 0
        view = self.view_of(array, is_used)
        if view is not None:
            self.put(i, view)
        return 0

    cdef int show_written(self, int i) except -1:
        """The same of one that the code writes to: its numbers are others in the next call."""
        return self.lets_move(self.operand(i)) or self.show(i, True)

    cdef int lets_move(self, PyObject *array) except -1:
        """An array from outside is read where it lies, whatever its kind."""
        source = None if array == NULL else self.homes.get(<size_t>array)
        if source is not None and self.moving is not None and type_of(array) == Array:
            self.moving.add(str(source))
        return 0

    cdef object view_of(self, PyObject *array, bint is_used):
        """What stands for an array from outside; None for it itself."""
        source = self.homes.get(<size_t>array)
        if self.shows is None or (source is None and is_used) or not is_users(
                (<object>self.top).f_globals.get("__name__", "")):
            return None
        if source is None:  # from code that passes arrays on as they are
            return self.knows(<object>array)
        view = self.shows(<object>array, source, is_used)
        if view is not None:
            self.shown[<size_t><PyObject *>view] = source
            self.kept.append(view)
        return view

    cdef int show_owner(self, str name) except -1:
        """An attribute is about to be read; a method that is not called at once stays that of the
        array itself."""
        return self.show(0, True) if self.binds or name not in METHODS else 0

    def has_changed(self, thing):
        """The call has written into a thing from outside: what it holds is no longer from there."""
        address = <size_t><PyObject *>thing
        self.touched.add(address)
        self.written.add((address, "*", None))

    def must_stay(self, array):
        """An array from outside decides about more than numbers."""
        if <size_t><PyObject *>array in self.homes:
            self.fact(array, "numbers")

    # --- operands -------------------------------------------------------------------------------
    cdef PyObject *operand(self, int i) noexcept:
        """The `i`-th from the top."""
        return self.layout.operand(self.top, self.offset, i)

    cdef int put(self, int i, thing) except -1:
        """Let another take the place of the `i`-th from the top."""
        cdef PyObject *before = self.operand(i)
        if self.first == before:
            self.first = <PyObject *>thing
        if self.second == before:
            self.second = <PyObject *>thing
        return self.layout.put(self.top, self.offset, i, thing)

    cdef object at(self, int i):
        cdef PyObject *found = self.operand(i)
        return Nulls if found == NULL else <object>found

    cdef bint is_seen(self, PyObject *thing, str name) except -1:
        """Whether it has been noted that this is read of a thing."""
        cdef PyObject *names
        if self.layout.seen[self.offset >> 1] == thing:  # by this instruction
            return True
        names = PyDict_GetItem(self.names_seen, <object>(<size_t>thing))
        if names == NULL or name not in <set>names:
            return False
        self.layout.seen[self.offset >> 1] = thing
        return True

    cdef int see(self, PyObject *thing, str name) except -1:
        """Note that this is read of a thing, which is kept."""
        # Which may write there in between; each time it is read, it is handed over (of what is
        # asked for by now, nobody knows whether it moves).
        if self.around is not None or self.moved is not None or (self.moving and self.asked):
            return 0
        self.names_seen.setdefault(<size_t>thing, set()).add(name)
        self.layout.seen[self.offset >> 1] = thing
        return 0

    cdef str name(self, int i):
        return self.layout.names[i]

    cdef object cell(self, int i):
        """The cell of a free variable; None for one of the frame's own."""
        cdef PyObject *found
        i -= self.layout.first_free
        if i < 0:
            return None
        found = frame_cell(self.top, i)
        if found == NULL:
            return None
        cell, function = <object>found, self.functions[-1]
        if function is not None and not self.is_own(cell) and not self.is_own(function):
            self.place("closure", self.root(function), i, cell)
        return cell
