"""Asks whether what a call has read is as it was."""

from sdbr.base.failures import is_of_ours
from sdbr.trace.watch.plan.planning import Planner

from sdbr.trace.watch.plan._plan cimport Plan

# Checks by which a plan has paid for itself.
cdef int PAYS = 8
# Facts that the user's code is asked for.
cdef frozenset RUNS_CODE = frozenset({"dir", "hasattr", "isinstance", "issubclass", "result"})


cpdef object failed(list steps, list values, tuple given):
    """The first guard that does not hold; None if all do.

    Parameters
    ----------
    steps : list of (Source or None, list of Guard)
        Where to look, parents first, and what has to hold then; None: it is among the values.
    values : list
        By the numbers of sources: what lies there, which is noted here.
    given : (tuple, dict)
        The arguments.
    """
    for source, guards in steps:
        if source is not None:
            holder = None if source.parent is None else values[source.parent.number]
            values[source.number] = source.step(holder, source.key, given)
        for guard in guards:
            try:
                if not guard.holds(values):
                    return guard
            except Exception as error:
                if guard.kind in RUNS_CODE or is_of_ours(error):
                    return guard
                raise  # of a signal
    return None


cdef class Rest:
    """Asks the guards that no test tells of, given what lies at some sources."""

    cdef list steps, numbers
    cdef Py_ssize_t size

    def __init__(self, list steps, list numbers, Py_ssize_t size):
        self.steps, self.numbers, self.size = steps, numbers, size

    def __call__(self, list found, tuple given):
        cdef list values = [None] * self.size
        for number, value in zip(self.numbers, found):
            values[number] = value
        return failed(self.steps, values, given) is None


cdef class Checks:
    """Some guards of a call.

    The first time, and whenever something has moved, they are asked one by one; if all hold, a plan
    is noted of what has to stay as it is for them to hold again.

    Parameters
    ----------
    steps : list of (Source, list of Guard)
    size : int
        How many sources the call has.
    waits : int
        Checks before the first plan is made.

    Attributes
    ----------
    plan : Plan or None
    """

    def __init__(self, list steps, Py_ssize_t size, int waits=0):
        self.steps, self.size = steps, size
        self.held = PAYS  # checks for which the plan has been enough
        self.useless = 0  # plans in a row that have not paid
        self.waits = waits  # checks before the next plan is made

    cpdef object check(self, tuple args, dict kwargs):
        """The first guard that does not hold for a call with these arguments; None if all do."""
        cdef Plan plan = self.plan
        if plan is not None and plan.check(args, kwargs):
            self.held += 1
            return None
        cdef list values = [None] * self.size
        guard = failed(self.steps, values, (args, kwargs))
        if guard is None:
            self.note(values, args, kwargs)
        return guard

    cdef int note(self, list values, tuple args, dict kwargs) except -1:
        """Make a plan, more rarely where the last ones have not paid."""
        if self.waits:
            self.waits -= 1
            return 0
        self.useless = 0 if self.held >= PAYS else min(self.useless + 1, 10)
        self.waits = (1 << self.useless) - 1
        self.held = 0
        try:
            self.plan = Planner(self.steps, values, args, kwargs).plan(Rest)
        except Exception:  # a check without a plan takes longer, and is as good
            self.plan = None
        return 0
