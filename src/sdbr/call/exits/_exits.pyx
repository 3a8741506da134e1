"""Looks, after each piece of user code that a replay runs, at what the call reads.

Such code (``static_code``, the forward of a function node of the user's) may write where the call
reads afterwards, in this call for the first time. What was bound when the replay began is then not
what define-by-run would meet.
"""

from collections import OrderedDict
from functools import partial

from sdbr.audit.contents import copy_of, same_bytes
from sdbr.base.errors import SideExit
from sdbr.call.exits.resumed import Ran
from sdbr.call.exits.undo import Entry, Met, Undone, contents_now, entry_of
from sdbr.schedule.questions import words_of_generator
from sdbr.trace.arrays._scalars import ScalarAttribute
from sdbr.trace.code.reading import Cell, Field, place_key
from sdbr.trace.watch.sources import MISSING

import chainer
import numpy as np

from sdbr.call._conditions cimport WriteWatch
from sdbr.optimizers._update cimport Update
from sdbr.program._memory cimport Memory

cdef object _Variable = chainer.Variable
cdef frozenset _COPIED = frozenset({dict, list, set, OrderedDict})
cdef tuple _NO_CALL = ((), {})
cdef str _DATA = "_data"
cdef dict _global_config = chainer.global_config.__dict__


cdef class Exits:
    """The looks of the replays on one memory.

    Parameters
    ----------
    schedule : Schedule
    leaves : list of (Value, int)
        What is bound, with its slot.
    params : list of Parameter
        Those that are no leaves.
    taken_back : TakenBack
        What the program does beside that code.
    memory : Memory
    update : Update or None
        That the program makes: its numbers lie at the beginning of the control block.
    """

    def __init__(self, schedule, leaves, params, taken_back, Memory memory, Update update):
        self.memory, self.update = memory, update
        self.schedule = schedule
        self.write_watch = WriteWatch(schedule.guards)
        self.met = met = Met(schedule.guards)
        self.asked, self.fixed, self.looks = met.asked, met.things, met.looks
        self.filled = met.filled
        self.params = [value.source.__dict__ for value, _ in leaves if value.kind == "parameter"]
        self.params += [parameter.__dict__ for parameter in params]
        self.places = [
            (value.source[0].__dict__, value.source[1])
            for value, _ in leaves
            if value.kind == "attribute"
        ]
        trace = schedule.trace
        scalars = [*trace.scalars, *trace.numbers]
        scalars += [scalar for condition in trace.conditions for scalar in condition.scalars]
        roots = {root: None for scalar in scalars for root in scalar.roots}
        self.places += [(r.holder, r.attribute) for r in roots if type(r) is ScalarAttribute]
        # Replays write these at their end, over what that code has written.
        self.places += [(write.link.__dict__, write.name) for write in trace.writes]
        self.places += [place_of(s.sink) for s in trace.stores if s.sink.holder is not None]
        self.places = list({place_key(*place): place for place in self.places}.values())
        self.draws = taken_back.draws
        self.slots = taken_back.slots

    cdef int begin(self, tuple given) except -1:
        """A replay begins; `given`: the Variables and arrays among the arguments."""
        self.given = [x for x in given if isinstance(x, _Variable)]
        self.bound, self.notes, self.objects = self.now(), [], self.lying()
        self.active = True
        return 0

    cdef int end(self) except -1:
        self.active = False
        self.bound, self.notes, self.words, self.arrays = None, None, None, None
        self.given, self.local, self.shared, self.objects = None, None, None, None
        return 0

    cdef list now(self):
        """What lies where something is bound from; of a Variable, its array as well."""
        cdef list found = []
        cdef Py_ssize_t i
        for i in range(len(self.params)):
            found.append((<list> (<dict> self.params[i])[_DATA])[0])
        for thing in self.given:
            found.append((<list> thing._data)[0])
        for d, name in self.places:
            thing = d.get(name, MISSING)
            found.append(thing)
            found.append(thing._data[0] if isinstance(thing, _Variable) else None)
        return found

    cdef tuple lying(self):
        """What lies where the guards look; see `Met.put_back`."""
        cdef list things = list(self.fixed)
        cdef list contents = []
        for number, parent, step, key in self.looks:
            if step is None:
                things[<Py_ssize_t> number] = key()
                continue
            holder = None if <Py_ssize_t> parent < 0 else things[<Py_ssize_t> parent]
            if holder is not MISSING:
                holder = step(holder, key, _NO_CALL)
            things[<Py_ssize_t> number] = holder
        for number in self.filled:
            thing = things[<Py_ssize_t> number]
            contents.append(thing.copy() if type(thing) in _COPIED else contents_now(thing))
        return [d.get(name, MISSING) for d, name in self.asked], things, contents

    cdef bint is_bound(self) except -1:
        """Whether the same lies there as when the replay began."""
        cdef Py_ssize_t i
        cdef list now = self.now()
        for i in range(len(now)):
            if now[i] is not self.bound[i] and not _is_same(now[i], self.bound[i]):
                return False
        return True

    def begins(self):
        """User code begins."""
        if not self.active:
            return
        self.local, self.shared = dict(chainer.config._local.__dict__), dict(_global_config)
        if self.draws:
            self.words = words_of_generator()
        if self.slots:
            self.arrays = [(array, copy_of(array)) for array in map(self.memory.array, self.slots)]

    def ends(self, kind, *what):
        """User code has run.

        Parameters
        ----------
        kind : object
            The function of ``static_code``, or the class of a node.
        *what :
            See `Ran`.

        Raises
        ------
        SideExit
            If it has changed what the call reads.
        """
        if not self.active:
            return
        self.note(None, kind, what)
        if not self.write_watch.hold():
            moved = repr(str(self.schedule.guards.failed))
        elif not self.is_bound():
            moved = "an array or a number"
        elif not self.is_configured():
            moved = "chainer.config"
        elif not self.is_update():
            moved = "the optimizer"
        else:
            return
        raise SideExit(moved, *self.so_far())

    def fails(self, error, kind, *what):
        """User code has raised; the rest as for `ends`."""
        if self.active:
            self.note(error, kind, what)

    cdef int note(self, error, kind, tuple what) except -1:
        state = None
        if self.draws and (self.words is None or self.words != words_of_generator()):
            state = np.random.get_state(legacy=False)
        arrays = []
        for array, before in self.arrays or ():
            if not same_bytes([(array, before)])[0]:
                arrays.append((array, copy_of(array)))
        args = () if error is None else error.args
        self.notes.append(Ran(kind, what, state, arrays, error, args))
        return 0

    def so_far(self):
        """The user code that has run, and what puts back what it has changed."""
        return self.notes, partial(Undone, self.met, self.objects, self.moved())

    cdef bint is_configured(self) except -1:
        """Whether the configuration is what it was before the code ran."""
        local = chainer.config._local.__dict__
        return are_same(self.local, local) and are_same(self.shared, _global_config)

    cdef bint is_update(self) except -1:
        """Whether the program can still make the update; its numbers are what they are by now."""
        if self.update is None:
            return True
        return self.update.check() and self.update.prepare(self.memory, 0)

    def update_fits(self):
        """`is_update` for code of the backward, after which no replay can be left."""
        return not self.active or self.is_update()

    cdef list moved(self):
        """Where something else lies than was bound, what that was, and what asks whether it is."""
        cdef list found = []
        cdef Py_ssize_t i
        cdef Py_ssize_t n = len(self.params)
        cdef Py_ssize_t m = n + len(self.given)
        cdef list now = self.now()
        for i in range(len(now)):
            if _is_same(now[i], self.bound[i]):
                continue
            lies = bool
            if i < n:
                place = Entry(self.params[i][_DATA], 0)
            elif i < m:
                place = Entry(self.given[i - n]._data, 0)
            elif (i - m) % 2:
                if self.bound[i] is None or self.bound[i - 1] is not now[i - 1]:
                    continue
                place = Entry(now[i - 1]._data, 0)
            else:
                at = self.places[(i - m) // 2]
                place, lies = entry_of(*at), partial(_lies, *at, self.bound[i])
            found.append((place, self.bound[i], lies))
        local = chainer.config._local.__dict__
        for before, entries in ((self.local, local), (self.shared, _global_config)):
            for name in {**before, **entries}:
                thing = before.get(name, MISSING)
                if entries.get(name, MISSING) is not thing:
                    found.append((Entry(entries, name), thing, bool))
        return found


def place_of(sink):
    """The place to which a replay writes, as ``(holder, name)``."""
    owner, holder = sink.owner, sink.holder
    if isinstance(owner, type):
        return owner.__dict__, sink.name
    is_plain = isinstance(holder, dict) or isinstance(holder, Cell)
    return holder if is_plain else Field(owner, sink.name), sink.name


cdef bint are_same(dict before, dict now) except -1:
    """Whether the same things lie in two dictionaries of the configuration."""
    if len(before) != len(now):
        return False
    for name, thing in before.items():
        if now.get(name, MISSING) is not thing:
            return False
    return True


def _lies(holder, name, before):
    """Whether what was bound lies there again."""
    return _is_same(holder.get(name, MISSING), before)


def _is_same(a, b):
    """Whether two things that were looked up one after the other are one: views may be new ones."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.__array_interface__ == b.__array_interface__
    if isinstance(a, np.generic):
        return a.tobytes() == b.tobytes()
    return isinstance(a, (float, int)) and repr(a) == repr(b)
