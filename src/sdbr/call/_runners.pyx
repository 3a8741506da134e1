"""Who serves a call that is the same as one before: it is replayed at once.

Else :mod:`sdbr.call.manager` compares the key in full, and finds or makes the schedule; the replay
is the same (:mod:`sdbr.call._replay`). Whole steps: :mod:`sdbr.call.step._runner`.
"""

from sdbr.base.errors import OtherAnswer, SideExit
from sdbr.call.exits.resumed import finished

from cpython.object cimport PyObject

from sdbr.call._due cimport Due
from sdbr.call._binding cimport Binder
from sdbr.call._replay cimport Replay, binder_of
from sdbr.call._conditions cimport Numbers, WriteWatch, hooks_are_off
from sdbr.call._spec cimport CallSpec
from sdbr.call._table cimport Runner
from sdbr.call._watching cimport audit_share, is_set, tell, watched_since

cdef str _DYNAMIC = "dynamic"
cdef PyObject *NONE = <PyObject *> None


cdef class CallRunner(Runner):
    """Serves the calls that are like one that was compared in full.

    Parameters
    ----------
    replay : Replay
        Of the schedule.
    instance : Instance or None
        Its own, where calls leave no graph behind: no other call takes it.
    args, kwargs : tuple, dict
        The call that was compared in full.
    """

    cdef readonly Replay replay
    cdef dict schedule_dict
    cdef Binder own
    cdef WriteWatch write_watch
    cdef Numbers numbers
    cdef CallSpec spec
    cdef list positions
    cdef Due due                  # when to audit
    cdef double share             # what audits may cost; 0 without any

    def __init__(self, Replay replay, instance, tuple args, dict kwargs):
        schedule = self.schedule = replay.schedule
        self.replay = replay
        self.schedule_dict = schedule.__dict__
        self.own = None if instance is None else binder_of(instance)
        self.write_watch = WriteWatch(schedule.guards)
        self.spec = CallSpec(args, kwargs, schedule.trace.asks_layout, schedule.free)
        self.numbers = Numbers(schedule, len(self.spec.float_positions))
        self.positions = self.spec.array_positions(args, kwargs)
        self.share = audit_share(replay.manager, schedule)
        self.due = schedule.due

    @property
    def executable(self):
        """The executable that no other call runs; None where calls leave a graph behind."""
        return None if self.own is None else self.own.executable

    @staticmethod
    def suits(tuple args, dict kwargs):
        """Whether a runner can serve such calls."""
        return CallSpec.suits(args, kwargs)

    cdef object attempt(self, callee, tuple args, dict kwargs, bint unhooked):
        """The result of the call."""
        cdef double start
        cdef double begin
        self.met, self.halted = None, False
        # Comparing may run Python code, and so another thread: the runner is taken before.
        if self.running:
            return NotImplemented
        self.running = True
        start = watched_since()
        try:
            if not self.matches(args, kwargs, unhooked):
                return NotImplemented
            if self.share and self.due.is_due(self.spec, self.positions, self.share):
                self.halted = True
                return NotImplemented
            begin = self.due.start() if self.share else 0
            result = self.run_call()
            if begin:
                self.due.stop(begin, self.share)
            if result is NotImplemented:
                self.halted = True
            elif start:
                tell(self.replay.manager, start)
            return result
        except OtherAnswer as other:
            self.met = self.schedule.after(other)
            return NotImplemented
        except SideExit as side_exit:
            left = side_exit
        finally:
            self.spec.release()
            self.running = False
        self.replay.statistics.calls += 1
        return finished(self.replay.manager, self.schedule, left, args, kwargs)

    cdef bint matches(self, tuple args, dict kwargs, bint unhooked):
        if is_set(self.schedule_dict, _DYNAMIC, NONE):
            return False
        if not self.spec.matches(args, kwargs) or not (unhooked or hooks_are_off()):
            return False
        if not self.write_watch.hold():
            return False
        return not self.numbers.active or self.numbers.read(self.spec)

    cdef object run_call(self):
        """The result of the call, or NotImplemented when it declines."""
        if self.own is not None:
            return self.replay.serve_alone(self.own, self.spec, self.positions, self.numbers)
        return self.replay.serve(self.spec, self.positions, self.numbers, True, None)
