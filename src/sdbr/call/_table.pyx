"""The runners of calls, or of steps, by what a call looks like: found at once, however many."""

import weakref
from types import MethodType as _Method

import chainer

from cpython.object cimport PyObject, Py_TYPE, PyTypeObject
from libc.stdint cimport uint64_t

cimport numpy as cnp

from sdbr.base._dicts cimport SDBR_DICT_VERSIONS, sdbr_dict_version, sdbr_own, sdbr_own_dict
from sdbr.base._python cimport (
    PyDict_GetItemWithError,
    PyDict_Next,
    sdbr_attributes,
    sdbr_descr,
    sdbr_dims,
    sdbr_is_array,
    sdbr_list_item,
    sdbr_ndim,
)
from sdbr.program._arenas cimport Arena

cnp.import_array()

cdef enum:
    DEEPEST = 8  # containers in containers: what lies deeper is left to the comparison
    MOST = 64    # runners of one optimizer, where several managers have some

cdef str _DATA = "_data"
cdef str _REQUIRES_GRAD = "_requires_grad"
cdef PyObject *K_DATA = <PyObject *> _DATA
cdef PyObject *K_REQUIRES_GRAD = <PyObject *> _REQUIRES_GRAD

cdef object _Variable = chainer.Variable
cdef object _None = type(None)
cdef dict _global_config = chainer.global_config.__dict__
cdef object _local_config = chainer.config._local
cdef sdbr_own _own_config


cdef inline uint64_t mixed(uint64_t look, uint64_t more) noexcept:
    look = (look ^ more) * <uint64_t> 0x9E3779B97F4A7C15
    return look ^ (look >> 32)


cdef uint64_t look_of_entries(dict entries) noexcept:
    """Of a dictionary of the configuration, whose values are compared by identity."""
    cdef Py_ssize_t place = 0
    cdef PyObject *key
    cdef PyObject *value
    cdef uint64_t look = 0
    while PyDict_Next(<PyObject *> entries, &place, &key, &value):
        look += mixed(<uint64_t> key, <uint64_t> value)  # in any order
    return look


cdef uint64_t with_argument(uint64_t look, x, int depth, bint free) except? 0:
    """`look` and what a `CallSpec` compares of one argument, but for whole numbers with `free`."""
    cdef PyObject *array = <PyObject *> x
    cdef PyObject *data
    cdef PyTypeObject *kind = Py_TYPE(x)
    cdef int k
    cdef dict d
    look = mixed(look, <uint64_t> kind)
    if kind == <PyTypeObject *> _Variable:
        d = sdbr_attributes(x, NULL)
        look = mixed(look, <uint64_t> PyDict_GetItemWithError(<PyObject *> d, K_REQUIRES_GRAD))
        data = PyDict_GetItemWithError(<PyObject *> d, K_DATA)
        if data == NULL:
            return look
        array = sdbr_list_item(data, 0)
    if sdbr_is_array(array):
        look = mixed(look, <uint64_t> sdbr_descr(array))
        look = mixed(look, <uint64_t> sdbr_ndim(array))
        for k in range(sdbr_ndim(array)):
            look = mixed(look, <uint64_t> sdbr_dims(array)[k])
    elif kind == <PyTypeObject *> str or (kind == <PyTypeObject *> int and not free):
        look = mixed(look, <uint64_t> hash(x))
    elif kind == <PyTypeObject *> bool or kind == <PyTypeObject *> _None:
        look = mixed(look, <uint64_t> <PyObject *> x)
    elif depth < DEEPEST and type(x) in (list, tuple, dict):
        look = mixed(look, <uint64_t> len(x))
        for y in (x.values() if type(x) is dict else x):
            look = with_argument(look, y, depth + 1, free)
    return look


cdef class Runner:
    """Serves, compiled, the calls or the steps that are like one that was compared in full."""

    cdef object attempt(self, callee, tuple args, dict kwargs, bint unhooked):
        """What the call gives; NotImplemented where it is another call, or the runner declines.

        Then nothing has happened; `met` has the answers of one that goes another way, and `halted`
        tells that the call has to be looked at in full.
        """
        raise NotImplementedError


cdef class Group:
    """The runners of calls that look the same.

    They differ in what a look does not tell: attributes, or the way that a value decides about.
    The one that followed the last one before is asked first.
    """


cdef class Table:
    """Runners by the look of their calls: a number that is the same for calls that a `CallSpec`
    does not tell apart.

    Before anything is looked up, the one is asked that served after the last one the last time.
    Each compares a call in full, whatever way it was found.
    """

    def __cinit__(self):
        self.groups = {}
        self.arena = Arena()

    def __iter__(self):
        return iter([runner for group in list(self.groups.values())
                     for runner in (<Group> group).runners])

    def __len__(self):
        return sum([len((<Group> group).runners) for group in list(self.groups.values())])

    @property
    def likely(self):
        """The runner that is asked first; None where there is none."""
        return None if self.last is None else self.last.likely

    def add(self, Runner runner, callee, tuple args, dict kwargs):
        """Take up the runner of this call, in the place of any of the same schedule.

        Parameters
        ----------
        runner : Runner
        callee : callable or None
            What is called, where that is not the same for all.
        args, kwargs :
            Of the call.
        """
        self.forget(runner.schedule)
        self.put(runner, callee, args, kwargs)
        self.note(runner)

    cdef int put(self, Runner runner, callee, tuple args, dict kwargs) except -1:
        cdef uint64_t look
        cdef Group group
        if runner.schedule.free and not self.free:
            self.clear()  # looks are others from now on
            self.free = True
        look = self.look_of(callee, args, kwargs)
        group = self.groups.get(look)
        if group is None:
            group = Group.__new__(Group)
            group.look = look
            group.runners = [runner]
            self.groups[look] = group
        else:
            group.runners = [runner, *group.runners]
        runner.group = group
        runner.then, runner.sure = None, False
        if group.likely is None:
            group.likely = runner
        return 0

    def forget(self, schedule):
        """Let go of the runners of a schedule."""
        cdef Group group
        for group in list(self.groups.values()):
            kept = [runner for runner in group.runners if runner.schedule is not schedule]
            if len(kept) < len(group.runners):
                self.leave(group, kept)

    def clear(self):
        """Let go of all runners."""
        for group in list(self.groups.values()):
            self.leave(group, [])

    cdef int leave(self, Group group, list kept) except -1:
        """Only these runners of a group are left."""
        cdef Runner runner
        for runner in group.runners:
            runner.then, runner.sure = None, False
            if runner not in kept:
                runner.group = None
        group.runners, group.served = kept, None
        group.likely = kept[0] if kept else None
        self.tried = None
        if not kept:
            if self.groups.get(group.look) is group:
                del self.groups[group.look]
            if self.last is group:
                self.last, self.halted = None, False
        return 0

    cdef int note(self, Runner runner) except -1:
        """A call was served: its runner's group comes first, and who comes after whom is learnt."""
        cdef Group group = runner.group
        cdef Runner before
        if group is None:  # forgotten meanwhile
            return 0
        if self.last is not group:
            if self.last is not None:
                self.last.then = group
            self.last = group
        elif group.then is not None:
            group.then = None
        if len(group.runners) == 1:
            return 0
        before = group.served
        if before is not None:
            if (before if before.then is None else before.then) is runner:
                before.sure = True
            elif before.sure:  # once is no rule
                before.sure = False
            else:
                before.then = None if runner is before else runner
        group.served = runner
        group.likely = runner if runner.then is None else runner.then
        return 0

    cdef object serve(self, callee, tuple args, dict kwargs, bint unhooked):
        """What the call gives by the first runner that fits; NotImplemented when none does."""
        cdef Group group = self.last
        cdef Runner asked = None
        cdef Runner likely, runner
        cdef list runners
        cdef Py_ssize_t i
        answers = None
        self.halted = False
        if group is not None and group.then is not None:
            group = group.then
        if group is not None and group.likely is not None:
            asked = group.likely
            result = asked.attempt(callee, args, kwargs, unhooked)
            if result is not NotImplemented:
                self.note(asked)
                return result
            if asked.halted:
                self.halted = True
                return result
            answers = asked.met
        if answers is None:
            group = self.groups.get(self.look_of(callee, args, kwargs))
            if group is None:
                self.tried = None
                return NotImplemented
        else:
            self.tried = asked
        runners, likely = group.runners, group.likely
        for i in range(-1, len(runners)):
            runner = likely if i < 0 else <Runner> runners[i]
            if runner is None or runner is asked or (i >= 0 and runner is likely):
                continue
            if answers is not None and not runner.schedule.follows(answers):
                continue
            result = runner.attempt(callee, args, kwargs, unhooked)
            if result is not NotImplemented:
                self.tried = None
                self.note(runner)
                return result
            if runner.halted:
                self.halted = True
                break
            if runner.met is not None:
                answers, self.tried = runner.met, runner
        if answers is None:
            self.tried = None
        return NotImplemented

    def run(self, tuple args, dict kwargs):
        """`serve` for calls from Python; hooks are looked for."""
        return self.serve(None, args, kwargs, False)

    cdef uint64_t look_of(self, callee, tuple args, dict kwargs) except? 0:
        """What a call looks like: arguments and configuration, as far as a number tells them."""
        cdef dict local = sdbr_own_dict(_local_config, &_own_config)
        cdef uint64_t version = sdbr_dict_version(<PyObject *> _global_config)
        cdef uint64_t look
        if not SDBR_DICT_VERSIONS or version != self.config_version:
            self.config_look = look_of_entries(_global_config)
            self.config_version = version
        look = mixed(self.config_look, look_of_entries(local))
        if type(callee) is _Method:  # each access to a method makes a new object
            look = mixed(look, <uint64_t> <PyObject *> callee.__self__)
            look = mixed(look, <uint64_t> <PyObject *> callee.__func__)
        else:
            look = mixed(look, <uint64_t> <PyObject *> callee)
        for x in args:
            look = with_argument(look, x, 0, self.free)
        if kwargs is not None:
            for name, x in kwargs.items():
                look = with_argument(mixed(look, <uint64_t> hash(name)), x, 0, self.free)
        return look


cdef class Steps(Table):
    """The runners of one optimizer's steps.

    Parameters
    ----------
    optimizer : chainer.GradientMethod
    """

    cdef object owner
    cdef object target            # of the optimizer: what is known goes with it
    cdef dict by_schedule         # a runner, or why there is none; keeps the schedules alive
    cdef readonly object gradients  # the array of each parameter, as long as a runner writes it

    def __init__(self, optimizer):
        self.owner = weakref.ref(optimizer)
        self.target = optimizer.target
        self.by_schedule = {}
        self.gradients = weakref.WeakValueDictionary()

    def is_of(self, optimizer):
        """Whether these are steps of this optimizer (a copy shows those of the first) as it is."""
        return self.owner() is optimizer and optimizer.target is self.target

    def known(self, schedule):
        """What is kept for a schedule; None without anything."""
        return self.by_schedule.get(id(schedule))

    def keep(self, manager, schedule, runner):
        """Keep a runner, or why there is none, for a schedule of a manager.

        As many as the manager has schedules; what was kept for forgotten ones goes, and of more
        than `MOST` the oldest of other managers.
        """
        cdef Py_ssize_t more = len(self.by_schedule) + 1 - MOST
        for other in list(self.by_schedule.values()):
            elsewhere = more > 0 and other.manager is not manager
            if other.schedule.gone or other.schedule is schedule or elsewhere:
                self.by_schedule.pop(id(other.schedule), None)
                self.forget(other.schedule)
                more -= 1
        self.by_schedule[id(schedule)] = runner

    def learn(self, Runner runner, lossfun, tuple args, dict kwargs):
        """Let a runner serve steps like one whose key was compared in full.

        Returns
        -------
        bool
            False if the step is of no simple kind, or another thread is in one.
        """
        if not runner.learn(args, kwargs):
            return False
        self.forget(runner.schedule)
        self.put(runner, lossfun, args, kwargs)
        return True

    def made(self, Runner runner):
        """Note that a runner has made the last step."""
        self.note(runner)

    def make(self, optimizer, lossfun, tuple args, dict kwargs):
        """Whether the step was made: False where it has to be looked at in full."""
        if self.owner() is not optimizer:
            return False
        return self.serve(lossfun, args, kwargs, False) is True
