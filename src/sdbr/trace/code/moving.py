"""What gives something else each time it is asked: iterators, queues, clocks, generators."""

from __future__ import annotations

import io
import pickle
import queue
import random
import types
from collections.abc import Iterator

from sdbr.base.reasons import Reason, Remedy

import numpy as np

# Functions of the module `time`.
CLOCKS = (
    'clock_gettime', 'clock_gettime_ns', 'monotonic', 'monotonic_ns', 'perf_counter',
    'perf_counter_ns', 'process_time', 'process_time_ns', 'thread_time', 'thread_time_ns', 'time',
    'time_ns',
)  # fmt: skip
#: Classes of random generators.
GENERATORS = (random.Random, np.random.RandomState, np.random.Generator)
_QUEUES = (queue.Queue, queue.SimpleQueue)
#: NumPy's global generator, whose methods are the functions of ``numpy.random``.
GLOBAL_GENERATOR = np.random.mtrand._rand


def moves_on(thing) -> Reason | None:
    """Why a thing gives something else each time it is asked, so that no schedule can read it.

    Random generators are no such things: whether they were drawn from is seen.
    """
    if isinstance(thing, Iterator) and not isinstance(thing, io.IOBase):
        text = "is an iterator, which goes on from call to call; pass what it gives as an argument"
        return Reason(text, Remedy.PASS_WHAT_IT_GIVES)
    if isinstance(thing, _QUEUES):
        text = "is a queue, which gives something else each time; pass that as an argument"
        return Reason(text, Remedy.PASS_WHAT_IT_GIVES)
    if isinstance(thing, (types.BuiltinMethodType, types.MethodType, types.MethodWrapperType)):
        return moves_on(thing.__self__)  # it.__next__, jobs.get
    return None


def draws_next(generator: np.random.RandomState | np.random.Generator) -> bytes | None:
    """The state of a generator; of NumPy's global one none, as it is seen who draws from that."""
    if generator is GLOBAL_GENERATOR:
        return None
    if isinstance(generator, np.random.RandomState):
        return pickle.dumps(generator.get_state(legacy=False))
    return pickle.dumps(generator.bit_generator.state)
