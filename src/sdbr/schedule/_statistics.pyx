"""How calls were served: of one manager, and of one schedule."""


cdef class Statistics:
    """Counters of one manager.

    Attributes
    ----------
    calls, traces, replays, steps, define_by_run_calls : int
        How calls were served; `steps` are replays that were whole steps.
    builds : int
        Schedules that were built for a new size, without a trace.
    compiled_backwards : int
        Backwards through a replayed call that were made without Chainer's code.
    native_calls : int
        Runs of a program (forward, backward, update or step).
    python_ops : int
        Python ops run inside them.
    second_backwards, second_replays : int
        Second derivatives that were taken through a replayed call, and how many of them were
        replays of their own.
    """

    cdef void replayed(self, Usage usage, int python_ops, bint is_new) noexcept:
        """Count a replay of a schedule, and the call where `is_new` says that nobody has yet.

        The one place where replays are counted.
        """
        self.calls += is_new
        self.replays += 1
        self.native_calls += 1
        self.python_ops += python_ops
        usage.served += 1
        usage.replays += 1
        usage.last_call = self.calls

    def mark(self, Usage usage):
        """What `go_back` puts back."""
        mine = self.calls, self.replays, self.steps, self.native_calls, self.python_ops
        return mine, (usage.served, usage.replays, usage.last_call)

    def go_back(self, mark, Usage usage):
        """Count nothing of what was counted since: a replay that nobody has asked for."""
        mine, of_schedule = mark
        self.calls, self.replays, self.steps, self.native_calls, self.python_ops = mine
        usage.served, usage.replays, usage.last_call = of_schedule

    cpdef int count_run(self, executable) except -1:
        """Count one run of an executable that is no replay of a schedule: a backward."""
        self.native_calls += 1
        self.python_ops += executable.program.python_ops
        return 0

    def to_dict(self):
        """All counters by name."""
        return {
            "calls": self.calls,
            "traces": self.traces,
            "builds": self.builds,
            "replays": self.replays,
            "steps": self.steps,
            "define_by_run_calls": self.define_by_run_calls,
            "compiled_backwards": self.compiled_backwards,
            "native_calls": self.native_calls,
            "python_ops": self.python_ops,
            "second_backwards": self.second_backwards,
            "second_replays": self.second_replays,
        }

    def __repr__(self):
        return f"Statistics({', '.join(f'{k}={v}' for k, v in self.to_dict().items())})"


cdef class Usage:
    """How often a schedule served its manager's calls.

    Attributes
    ----------
    served : int
        With the traced call and those that were dynamic.
    replays : int
    last_call : int
        Number of the call that it served last.
    """

    def count(self, Statistics statistics):
        """Count the present call."""
        self.served += 1
        self.last_call = statistics.calls
