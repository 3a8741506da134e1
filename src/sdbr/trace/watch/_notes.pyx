"""What a call reads from outside, noted: each thing by the path by which it was first reached."""

import sys
import types

from sdbr.devices.arrays import ARRAYS
from sdbr.trace.arrays.stripping import strip
from sdbr.trace.code.foreign import is_users
from sdbr.trace.code.frames import user_line
from sdbr.trace.code._library import COMPILED
from sdbr.trace.code.moving import GENERATORS
from sdbr.trace.watch._following import is_library_class
from sdbr.trace.watch._looks import ATOMS, MISSING
from sdbr.trace.watch.fingerprints import CONTAINERS, LOOSE
from sdbr.trace.watch.reads import (
    FACTS, PLACES, Reads, contents_of, is_alike, is_ours, value_print,
)
from sdbr.trace.watch.sources import Source, hold

import chainer
import numpy as np

from cpython.object cimport PyObject

from sdbr.trace.watch._events cimport Events
from sdbr.trace.watch._fresh cimport Fresh
from sdbr.trace.watch._following cimport hides_code, unbound
from sdbr.trace.watch._looks cimport (
    class_attribute, field, is_a, is_atom, item, lookup, shown, token_of,
)

# Of which somebody wants to know where they lie.
cdef tuple MET = (*GENERATORS, np.generic, chainer.Variable, chainer.Link)
cdef tuple LINKS = (chainer.Link,)
# Of what lies there others tell.
cdef tuple TOLD = (
    chainer.Link, chainer.LinkHook, chainer.Variable, chainer.variable.VariableNode,
    chainer.FunctionNode, chainer.Function,
)  # fmt: skip
cdef tuple MODULES = (types.ModuleType,)
cdef object REPORTERS = chainer.reporter._thread_local  # the recorder adds one to them
cdef tuple Arrays = tuple(ARRAYS)
# Facts about one key, and those that hang on which keys there are.
cdef frozenset OF_KEY = frozenset({"item", "attribute", "hasattr", "field"})
cdef frozenset OF_KEYS = frozenset({"length", "keys", "elements", "names", "dir"})
# The kinds of sources and facts that are about one and the same place.
cdef dict READS_OF = {"attribute": ("attribute", *PLACES)}
cdef str BESIDE = "to which static_code or a function node writes"


cdef class Notes(Events):
    """Takes down what is read, given the objects themselves.

    What was made during the call is its own: whatever is read of it needs no guard.
    """

    def __init__(self):
        self.reads = Reads()
        self.fresh = Fresh()
        self.sources, self.homes, self.owners = {}, {}, {}
        self.facts, self.written, self.touched, self.given_away = set(), set(), set(), set()
        self.beside, self.places = set(), []
        self.kept, self.starts, self.yields, self.writers = [], {}, {}, {}
        self.before, self.shown, self.ran = {}, {}, {}

    cpdef bint is_own(self, thing) except -1:
        """Whether nothing that is read of `thing` can change without the call."""
        cdef bint own = self.has(thing)
        if own and self.shared is not None and self.shared.meets_in_read(thing):
            self.has_part(thing)
        return own

    cdef bint has(self, thing) except -1:
        if type(thing) in ATOMS:
            return True
        address = <size_t><PyObject *>thing
        if address in self.homes:
            return False
        if self.fresh.has(<PyObject *>thing):
            module = is_a(thing, MODULES) and sys.modules.get(field(thing, "__name__"))
            return module is not thing
        return is_a(thing, Arrays) or is_atom(thing) or is_ours(thing)

    cpdef int runs(self, thing) except -1:
        """Code of the user's calls `thing`, or is it; what the call has made is not kept."""
        thing = unbound(thing)
        if type(thing) is not types.CodeType and self.fresh.has(<PyObject *>thing):
            if type(thing) is types.FunctionType:  # its code tells when it runs
                return 0
            thing = type(thing)
        address = <size_t><PyObject *>thing
        if address not in self.ran and self.top != NULL:
            if is_users((<object>self.top).f_globals.get("__name__", "")):
                self.ran[address] = thing
        return 0

    cpdef int is_made(self, thing) except -1:
        """The call has just made `thing`."""
        if self.shared is not None and self.shared.since is not None:
            self.shared.since.add(<PyObject *>thing)
        return self.fresh.add(<PyObject *>thing)

    cpdef bint is_new_to(self, thing) except -1:
        """Whether code that is not followed gets `thing` for the first time."""
        address = <size_t><PyObject *>thing
        if address in self.given_away:
            return False
        self.given_away.add(address)
        self.kept.append(thing)
        return True

    cpdef object root(self, thing):
        """The source of an object that was there before the call."""
        source = self.homes.get(<size_t><PyObject *>thing)
        if source is not None:
            return source
        if is_a(thing, MODULES):
            name = field(thing, "__name__")
            if type(name) is str and sys.modules.get(name) is thing:
                return self.place("module", None, name, thing)
        name = thing.__qualname__ if is_a(thing, NAMED) else None
        name = name.rpartition("<locals>.")[2] if name else f"<{type(thing).__qualname__}>"
        source = self.place("constant", None, hold(thing), thing, name)
        # Code that runs is the same in each call, and so is where it looks up its names.
        source.leads_there = is_a(thing, CODE) or (
            type(thing) is dict and "__builtins__" in thing)
        return source

    cpdef object place(self, str kind, parent, key, value, str name=""):
        """The source of this kind, which is noted with its value when it is met first."""
        token = key if type(key) is str else (type(key), token_of(key))
        index = kind, -1 if parent is None else parent.number, token
        source = self.sources.get(index)
        if source is not None:
            return source
        source = self.reads.add_source(Source(kind, parent, key, name))
        self.sources[index] = source
        self.kept.append(key)
        address = <size_t><PyObject *>value
        home = self.homes.get(address)
        if kind != "constant":
            want = value_print(value)
            self.reads.add(source, "value", None, want, is_ours(value))
            if home is not None and type(want) is tuple:
                self.reads.add(source, "is", home, True)
        if self.meets is not None and is_a(value, MET):
            self.meets(value, source)
        if home is not None or value is MISSING or value is REPORTERS or is_atom(value):
            return source
        self.kept.append(value)
        if is_ours(value):
            self.shown[address] = source
        else:
            self.homes[address] = source
        return source

    cpdef int read(self, thing, str kind, key, value) except -1:
        """The code reads `value` of `thing`."""
        if self.is_own(thing):
            return 0
        if not self.is_written(thing, kind, key) and not is_pythons(key):
            self.place(kind, self.root(thing), key, value)
            self.apart(thing, kind, key)
        return 0

    cpdef bint is_written(self, thing, str kind, key) except -1:
        """Whether what lies there is what the call itself has written."""
        if self.around is not None:
            self.around.read_beside(thing, kind, key)
        address = <size_t><PyObject *>thing
        start = self.starts.get(address)
        if start is not None and item(start, key) is not item(thing, key):
            return True
        if address not in self.touched:
            return False
        if (address, "*", None) in self.written:
            self.mark_dynamic(f"reads of {self.root(thing)}, which it has changed")
            return True
        place = place_of(thing, kind, key)
        if place in self.beside:
            self.mark_dynamic(f"reads {self.root(thing)}: {kind} {shown(key)!r:.40}, {BESIDE}")
            return True
        return place in self.written

    cpdef int fact(self, thing, str kind, key=None) except -1:
        """The code learns something of `thing`, one of `FACTS`."""
        if kind != "result" and self.is_own(thing):
            return 0
        if self.around is not None and kind not in OF_KEY:
            self.around.read_beside(thing, "*", None)
        address = <size_t><PyObject *>thing
        if address in self.touched and not self.root(thing).is_cache and (
            (address, "*", None) in self.written
            or kind == "contents"
            or kind in OF_KEYS and (address, "keys", None) in self.written
        ):
            what = FACTS[kind][1].format(self.root(thing), shown(key))
            self.mark_dynamic(f"asks for {what} after it has written to it")
            return 0
        if kind in OF_KEY and (self.is_written(thing, kind, key) or is_pythons(key)):
            return 0
        self.apart(thing, kind, key)
        source = self.root(thing)
        token = kind, source.number, type(key), token_of(key)
        if token in self.facts:
            return 0
        self.facts.add(token)
        self.kept.append(key)
        try:
            want = FACTS[kind][0](thing, key)
        except Exception as error:
            self.mark_dynamic(f"{kind} of a {type(thing).__qualname__}: {error}")
            return 0
        if type(want) is tuple and len(want) == 2 and want[0] == "opaque":
            self.mark_dynamic(f"gives away what cannot be compared: {want[1]}")
        else:
            self.reads.add(source, kind, key, want)
            if kind == "contents" and self.meets is not None:
                self.meets(thing, source)
        return 0

    cpdef int numbers_behind(self, shown) except -1:
        """Code that is not followed reads an array that something of ours stands for."""
        source = self.shown.get(<size_t><PyObject *>shown)
        if source is not None and source.root().kind not in ("argument", "keyword"):
            want = FACTS["numbers"][0](np.ndarray.view(shown, np.ndarray), None)
            self.reads.add(source, "numbers", None, want)
        return 0

    cpdef int compare(self, one, other, bint is_asked=False) except -1:
        """The code asks whether one is the other, or learns that."""
        a, b = self.lies_at(one), self.lies_at(other)
        if a is None or b is None or a is b:
            return 0
        token = "asked" if is_asked else "is", a.number, int, b.number
        if token not in self.facts:
            self.facts.add(token)
            self.reads.add(a, "is", b, strip(one) is strip(other))
            if is_asked:
                self.reads.compared.append(self.reads.guards[-1])
        return 0

    cdef object lies_at(self, thing):
        """The source of a thing, or of what it stands for; None of what is the call's own."""
        for one in (thing, strip(thing)):
            address = <size_t><PyObject *>one
            source = self.shown.get(address) or self.homes.get(address)
            if source is not None:
                return source
        return None if self.is_own(thing) else self.root(thing)

    cpdef int wrote(self, thing, str kind, key, bint new=False, str name="") except -1:
        """The code writes to `thing`, by a key, or ("*") all over it; `new`: there was nothing.

        `name` is that of a variable, where `thing` is its cell.
        """
        if is_pythons(key):
            return 0
        if self.has(thing):
            if self.shared is not None and self.shared.meets_in_write(thing, kind):
                self.has_part(thing)
            return 0
        source = self.root(thing)
        address = <size_t><PyObject *>thing
        place = place_of(thing, kind, key)
        self.touched.add(address)
        self.writers.setdefault(place[1:], {})[address] = thing
        if place not in self.written:  # once, however often
            self.written.add(place)
            if place in self.beside:
                self.mark_dynamic(f"writes {source}: {kind} {shown(key)!r:.40}, {BESIDE}")
            noted = None
            if self.writes is not None:
                was_read = self.has_read(source, kind, key)
                noted = self.writes(source, thing, kind, name or key, was_read)
            self.places.append((source, kind, key, thing, noted))
        self.kept.append(key)
        if new:
            self.written.add((address, "keys", None))
        if kind == "*" and is_a(thing, CONTAINERS) and address not in self.before:
            self.before[address] = thing, contents_of(thing)
        what = "" if key is None else f": {kind} {shown(key)!r:.40}"
        self.reads.writes.append(f"{source}{what}")
        return 0

    def inside(self, make, its_own):
        """A watch, made by `make`, of code that runs in each replay; None where this one is over.
        `its_own`: addresses of what each replay makes anew for it.
        """
        if self.thread == NULL:
            return None
        if self.inner is None:
            self.inner = make()
            self.inner.fresh = self.fresh  # what the call has made is its own
            self.inner.around = self
            self.shared = self.inner.shared = Shared(self.fresh, TOLD)
        self.shared.begin(its_own, self.inner)
        return self.inner

    cdef int has_part(self, thing) except -1:
        cdef Notes notes = self if self.around is None else self.around
        what = f"a {type(thing).__qualname__} that it has made"
        return notes.mark_dynamic(f"shares {what} with static_code or a function node")

    cpdef int wrote_beside(self, Notes other, bint is_free) except -1:
        """Code has run that runs in each replay, too: what it has written, as `other` has seen, the
        call must have no part in. `is_free`: it may write to links, which is seen elsewhere.
        """
        for source, kind, key, thing, _ in other.places:
            address = <size_t><PyObject *>thing
            if is_a(thing, LINKS):
                if is_free:
                    continue
                self.reads.beside.add((address, key))
            place = place_of(thing, kind, key)
            home = self.homes.get(address)
            is_read = home is not None and self.has_read(home, kind, key)
            if is_read:  # arrays are not compared
                now = Source("item" if type(thing) is dict else kind, source, key)
                is_read = is_a(now.step(thing, key, ((), {})), LOOSE)
            if is_read or (place in self.written and place not in self.beside):
                self.mark_dynamic(f"has a part in {source}: {kind} {shown(key)!r:.40}, {BESIDE}")
            self.kept += (thing, key)
            self.touched.add(address)
            self.beside.add(place)
            for whole in ((address, "keys", None), (address, "*", None)):
                if whole in other.written and whole not in self.written:
                    self.written.add(whole)
                    self.beside.add(whole)
        other.places.clear()
        other.written.clear()
        self.shared.end()
        return 0

    cdef int read_beside(self, thing, str kind, key) except -1:
        """Such code reads what the call may have written, which replays do at their end."""
        address = <size_t><PyObject *>thing
        if address in self.touched:
            place = place_of(thing, kind, key)
            for one in (place, (address, "*", None)) if kind != "*" else list(self.written):
                if one[0] == address and one in self.written and one not in self.beside:
                    text = f"writes {self.root(thing)}: {one[1]}"
                    self.mark_dynamic(f"{text}, which static_code or a function node reads")
                    break
        return 0

    cdef bint has_read(self, source, str kind, key) except -1:
        """Whether the code has asked for what lies there."""
        number, token = source.number, token_of(key)
        named = key if type(key) is str else (type(key), token)
        for one in READS_OF.get(kind, (kind,)):
            if (one, number, named) in self.sources:
                return True
            if (one, number, type(key), token) in self.facts:
                return True
        return False

    cpdef int look_back(self) except -1:
        """The call is over: note which containers it has written all over hold something else by
        now, as the next call may change them again; and what lies in the places it has written.
        """
        if self.shared is not None:  # where an error came before its end
            self.shared.end()
        for thing, before in self.before.values():
            now = contents_of(thing)
            if len(now) != len(before) or not all(map(is_alike, now, before)):
                self.reads.changed.append((self.root(thing), thing))
        for source, kind, key, thing, noted in self.places:
            home = None
            if kind != "*":
                kind = "item" if type(thing) is dict else kind
                left = Source(kind, source, key).step(thing, key, ((), {}))
                plain = strip(left)
                home = self.homes.get(<size_t><PyObject *>plain)
                if noted is None and is_ours(left) and not is_a(thing, TOLD):
                    self.mark_dynamic(f"leaves what it has computed in {source}")
                elif noted is not None:
                    noted.home = home or self.shown.get(<size_t><PyObject *>left)
                    noted.is_own = noted.home is None and self.is_own(left)
            self.reads.written.append((source, kind, key, home))
        self.reads.ran = list(self.ran.values())
        return 0

    cdef int apart(self, thing, str kind, key) except -1:
        """What is read of `thing` may not be what the call has written to another: that they are
        two."""
        if not self.writers:
            return 0
        place = place_of(thing, kind, key)[1:]
        exact = kind in OF_KEY or kind not in FACTS
        for written, others in self.writers.items():
            if written == place or written[0] == "*" or not exact:
                for other in list(others.values()):
                    if type(other) is type(thing) and other is not thing:
                        self.compare(thing, other)
        return 0

    cpdef object special(self, thing, str name):
        """What the class of `thing` has under a name that Python asks for; MISSING for nothing."""
        kind = type(thing)
        # Of Chainer's classes, the ways into links.
        if not is_library_class(kind) or (name == "__call__" and is_a(thing, LINKS)):
            self.read(kind, "attribute", name, lookup(kind, name)[1])
            if hides_code(class_attribute(kind, name)):
                self.mark_dynamic(f"calls {name} of a {kind.__qualname__}, which is compiled")
        return class_attribute(kind, name)

    cpdef object lineage(self, kind):
        """The code asks which classes a class counts to."""
        if is_a(kind, (type,)) and not is_library_class(kind):
            self.fact(kind, "bases")

    cpdef int give_yields(self, generator, meaning) except -1:
        """Code that is not followed takes what a generator of the call's own yields: then `meaning`
        is done with each of its values."""
        frame = generator.gi_frame
        if frame is not None:
            self.yields[<size_t><PyObject *>frame] = meaning
        return 0

    cpdef int mark_dynamic(self, str text) except -1:
        """Why the call cannot be static; where, is the user's code that is executed now."""
        place = "" if self.top == NULL else user_line()
        if (text, place) not in self.reads.dynamic:
            self.reads.dynamic.append((text, place))
        return 0


cdef tuple place_of(thing, str kind, key):
    """What tells one place from others, however it is read or written."""
    kind = PLACES.get(kind, kind)
    if kind == "attribute" and type(thing) is dict:  # globals of no module
        kind = "item"
    return <size_t><PyObject *>thing, kind, token_of(key)


cdef tuple CODE = (types.FunctionType, types.CellType, type)
cdef tuple NAMED = (types.FunctionType, types.BuiltinFunctionType, type, COMPILED)
# Attributes that Python itself writes when they are asked for.
cdef frozenset PYTHONS = frozenset({"__slotnames__", "__warningregistry__"})


cdef bint is_pythons(key) except -1:
    return type(key) is str and key in PYTHONS
