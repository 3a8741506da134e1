"""How a process that trains with others is left: which exits are seen, and who may end the job."""

from __future__ import annotations

import os
import subprocess
import sys

import sdbr  # noqa: F401
from sdbr.optimizers.ranks import ending

import pytest

#: What the last statements of a script are; code and line number of the exit that is seen.
WAYS = {
    "pass": None,
    "raise SystemExit(3)": (3, 1),
    "sys.exit(3)": (3, 1),
    "leave(3)": (3, 1),
    "exit(3)": (3, 1),
    "leave('no data')": ("no data", 1),
    "leave((1, 2))": ((1, 2), 1),
    "leave(SystemExit(4))": (4, 1),
    "sys.exit()": (None, 1),
    "sys.exit(0)": (0, 1),
    "with open(os.devnull): sys.exit(3)": (3, 1),
    "try: leave(3)\nexcept SystemExit: pass": None,
    "try: leave(3)\nexcept SystemExit as error: kept = error": None,
    "try: leave(3)\nexcept SystemExit as error: kept = error; leave()": (None, 2),
    "try: leave(3)\nexcept SystemExit as error: kept = error; leave(0)": (0, 2),
    "try: leave(3)\nexcept SystemExit: raise": (3, 1),
    "thread = threading.Thread(target=leave, args=(3,)); thread.start(); thread.join()": None,
    "_thread.start_new_thread(alone, ()); begun.acquire(); ended.acquire()": None,
    "leave(1, 2)": None,  # a TypeError
}

SCRIPT = """
import _thread, os, sys, threading
from sys import exit as leave
import sdbr
from sdbr.optimizers.ranks import _exits, ending

begun, ended = _thread.allocate_lock(), _thread.allocate_lock()
begun.acquire(), ended.acquire()

class Last:
    def __del__(self):
        ended.release()

def alone():
    last = Last()
    begun.release()
    raise SystemExit(3)

_exits.watch(ending.line_here)
for number, way in enumerate({ways!r}):
    sys.stdout.flush()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    else:
        import atexit
        atexit.register(lambda: print((number, _exits.left())))
        exec(compile(way, "way", "exec"))
        break
"""


def test_exits_that_nobody_caught_are_seen():
    script = SCRIPT.format(ways=list(WAYS))
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=300
    )
    seen = dict(eval(line) for line in done.stdout.splitlines())
    assert {way: seen[i] for i, way in enumerate(WAYS)} == {
        way: None if want is None else (want[0], f"way:{want[1]}") for way, want in WAYS.items()
    }


@pytest.mark.parametrize("where", ["script", "prompt", "child"])
def test_who_ends_the_others(where, monkeypatch):
    """Not one who types, nor a process that is forked from the rank."""
    pytest.importorskip("mpi4py", reason="mpi4py is not installed: pip install '.[mpi]'")
    told = []
    monkeypatch.setattr(ending, "abort", lambda *args: told.append(args))
    monkeypatch.setattr(ending._exits, "left", lambda: (3, "train.py:5"))
    found = ending._Ending()
    found.process = os.getpid() + (where == "child")
    if where == "prompt":
        monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    found._fail("KeyError at train.py:4")
    found.at_exit()
    errors = [("KeyError at train.py:4", 1)] if where == "script" else []
    exits = [("exit status 3 at train.py:5", 3)] if where != "child" else []
    assert told == errors + exits
