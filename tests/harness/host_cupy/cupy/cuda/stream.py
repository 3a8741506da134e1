"""Streams and events: all work is done at once, so that they only say where one is."""

from __future__ import annotations

import ctypes
import itertools
import threading
import time

from .device import get_device_id

_addresses = itertools.count(0x1000, 0x10)


class _Current(threading.local):
    stream = None


_current = _Current()


class Event:
    def __init__(self, block=False, disable_timing=False, interprocess=False):
        self.ptr = next(_addresses)
        self.time = None

    @property
    def done(self):
        return True

    def record(self, stream=None):
        self.time = time.perf_counter()

    def synchronize(self):
        pass


def get_elapsed_time(start_event, end_event):
    """Milliseconds between two events."""
    return (end_event.time - start_event.time) * 1000


class _BaseStream:
    def __init__(self, ptr, device_id=-1):
        self.ptr, self.device_id = ptr, device_id
        self._before = []

    def __eq__(self, other):
        return isinstance(other, _BaseStream) and self.ptr == other.ptr

    def __hash__(self):
        return self.ptr

    def __enter__(self):
        self._before.append(_current.stream)
        _current.stream = self
        return self

    def __exit__(self, *args):
        _current.stream = self._before.pop()

    def __repr__(self):
        return f"<{type(self).__name__} {self.ptr} (device {self.device_id})>"

    def use(self):
        _current.stream = self
        return self

    @property
    def done(self):
        return True

    @property
    def is_capturing(self):
        return False

    def synchronize(self):
        pass

    def add_callback(self, callback, arg):
        callback(self, 0, arg)

    def launch_host_func(self, callback, arg):
        callback(arg)

    def record(self, event=None):
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event):
        pass


class Stream(_BaseStream):
    null = None

    def __init__(self, null=False, non_blocking=False, ptds=False):
        # Where a driver without a device may look at what a stream does: nothing.
        self._memory = None if null else (ctypes.c_char * 64)()
        address = 0 if null else ctypes.addressof(self._memory)
        super().__init__(address, -1 if null else get_device_id())
        self.null, self.non_blocking = null, non_blocking


class ExternalStream(_BaseStream):
    pass


Stream.null = Stream(null=True)


def get_current_stream(device_id=-1):
    return _current.stream or Stream.null
