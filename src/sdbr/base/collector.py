"""Python's garbage collector is off while a trace or a program is made, in whatever thread."""

from __future__ import annotations

import os

from sdbr.base._collector import Collector

#: ``with collector_off():`` without the collector, which is switched back on as it was. What is
#: made there is many small objects that all stay, so that it would look for long and find nothing.
#: And what it calls, ``gc.callbacks`` and finalizers, is no part of a call that is traced.
collector_off = Collector()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=collector_off.in_the_child)
