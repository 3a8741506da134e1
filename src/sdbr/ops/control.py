"""Ops of the executor itself."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence

from sdbr.base.errors import BackendError, OtherAnswer
from sdbr.base.limits import REQUESTS
from sdbr.ops.op import Layout, Ops

import numpy as np

define = Ops()

#: The number of the question whether gradients are finite: of no trace, and no way of a call.
ALL_FINITE = -1
#: Elements that one collective takes: MPI counts them by a C int.
MOST_SUMMED = (1 << 31) - 1


def _gathered(
    ins: Sequence[Layout], outs: Sequence[Layout], ints: Sequence[int], floats: Sequence
) -> str:
    """At least one gradient, and room for all where there are several."""
    (flat,), gradients = (outs, ins) if outs else (ins[:1], ins[1:])
    total = sum(math.prod(shape) for _, shape in gradients)
    if not gradients or total > MOST_SUMMED:
        return f"{len(gradients)} gradients of {total} elements"
    fine = len(gradients) == 1 or flat[1] == (total,)
    return "" if fine else f"flat of {flat[1][0]} elements, expected {total}"


define(
    "python",
    "x:A*",
    "y:A*",
    "run object slot `slot`; operands are what it reads and writes",
    ints="slot n_inputs",
    effect=True,
    python=True,
)

define("nop", "", "", "nothing", lambda ins, outs, attributes: None, direct=True, effect=True)

define(
    "fork",
    "",
    "",
    "the next n1 + n2 + n3 + n4 ops are four branches (0: none) that may run at the same time",
    lambda ins, outs, attributes: None,
    ints="n1 n2 n3 n4",
    direct=True,
    effect=True,
)


@define(
    "question",
    "x:A[]",
    "",
    "end the run unless x is `answer`; `number` counts the questions of a trace",
    ints="answer number",
    direct=True,
    effect=True,
    asks=True,
)
def question(ins, outs, attributes):
    got = int(ins[0].reshape(())[()])
    if got != attributes["answer"]:
        raise OtherAnswer(attributes["number"], got)


_HANDLES = "communicator kind sum in_place wide"


@define(
    "allreduce",
    "g:T*",
    "flat:T[n]",
    "g = share * (sum of g over ranks) in place, for each g, by one MPI_Allreduce: its address, "
    "handles, MPI_IN_PLACE, and whether handles are pointers; flat is for several g, one after "
    "the other",
    ints=f"function {_HANDLES}",
    floats="share",
    rule=_gathered,
    direct=True,
    effect=True,
    updates=True,
    writes=True,
)
def allreduce(ins, outs, attributes):
    """Average gradients over ranks: an op that waits for another process."""
    data = _together(ins)
    _sum(data, attributes)
    _apart(data, ins, attributes["share"])


@define(
    "allreduce_begin",
    "g:T*",
    "flat:T[n]",
    "begin the sum of g over ranks, in flat where there are several g, else in place, by "
    "MPI_Iallreduce; `allreduce_end` of the same number waits for it",
    ints=f"function {_HANDLES} test wait number<{REQUESTS}",
    rule=_gathered,
    direct=True,
    effect=True,
    updates=True,
    writes=True,
)
def allreduce_begin(ins, outs, attributes):
    """Begin to average gradients. Here it is waited for at once; `flat` has the sums."""
    data = _together(ins)
    request = ctypes.c_int64()
    _sum(data, attributes, ctypes.byref(request))
    wait = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(attributes["wait"])
    state = (ctypes.c_int64 * 16)()
    _check(wait(ctypes.addressof(request), ctypes.addressof(state)), "MPI_Wait")
    if len(ins) > 1:
        outs[0][...] = data


define(
    "allreduce_progress",
    "",
    "",
    "let what `allreduce_begin` has begun go on (MPI_Test)",
    lambda ins, outs, attributes: None,
    direct=True,
    effect=True,
)


@define(
    "allreduce_end",
    "flat:T[n] g:T*",
    "",
    "wait for what `allreduce_begin` of that number has begun; g = share * (the sum of g over "
    "ranks), which lies in flat where there are several g",
    ints=f"number<{REQUESTS}",
    floats="share",
    rule=_gathered,
    direct=True,
    effect=True,
    updates=True,
    writes=True,
)
def allreduce_end(ins, outs, attributes):
    """The average itself."""
    flat, *gradients = ins
    data = gradients[0] if len(gradients) == 1 else flat
    _apart(data, gradients, attributes["share"])


def _together(gradients):
    """Numbers that one collective takes: those of one gradient, or all, one after the other."""
    if len(gradients) == 1:
        return gradients[0]
    return np.concatenate([g.ravel() for g in gradients])


def _apart(data, gradients, share: float) -> None:
    ends = np.cumsum([g.size for g in gradients])[:-1]
    for g, part in zip(gradients, np.split(data.ravel(), ends), strict=True):
        g[...] = part.reshape(g.shape) * g.dtype.type(share)


def _sum(data, attributes, *request) -> None:
    """Call the library; with a request, one of its functions that only begin."""
    handle = ctypes.c_void_p if attributes["wide"] else ctypes.c_int
    address = ctypes.c_void_p
    kinds = (address, address, ctypes.c_int, handle, handle, handle, *[address] * len(request))
    function = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(attributes["function"])
    handles = [attributes[name] for name in ("kind", "sum", "communicator")]
    sent = attributes["in_place"], data.ctypes.data, data.size
    _check(function(*sent, *handles, *request), "MPI_Iallreduce" if request else "MPI_Allreduce")


def _check(status: int, name: str) -> None:
    if status:
        raise BackendError(f"{name} gave {status}")


OPS = define.ops
